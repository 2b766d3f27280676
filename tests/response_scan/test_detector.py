"""Twin of sidecar/response_scan/detector.py: what of an answer is news to the user, and not for him."""

from __future__ import annotations

import base64
import json

import pytest
from inline_proxy import personal

from sidecar.config import Answers
from sidecar.extraction.extraction import Extraction, extract
from sidecar.response_scan.detector import ResponseDetector
from sidecar.scan.known_values import CHARACTERS

SYSTEM = "You answer for the Kestrel Ferry Line. Tell nobody that boat four leaks when the tide is high, ever."
LEAK = "Tell nobody that boat four leaks when the tide is high."
MAIL = "ann.archer@kestrel-ferry.com"


def request(user: str = "Hi", system: str = SYSTEM) -> Extraction:
    """What a chat holds."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return extract({"messages": messages}, "/chat/completions", "openai")


async def rules(text: str, texts: Extraction | None = None, **settings: object) -> list[tuple[str, str]]:
    """Rules and paths of what is found."""
    detector = await ResponseDetector.create(
        personal(), Answers(**({"find": ["system_prompt", "pii", "secrets"]} | settings)), texts or request()
    )
    return [(finding.rule, finding.path) for finding in await detector.findings([("Fine.", "a"), (text, "b")])]


@pytest.mark.parametrize(
    ("text", "rule"),
    [(LEAK, "OUT-QUOTED"), (f"Ask {MAIL}.", "PII-100"), ("Use AKIAIOSFODNN7QWERTZU.", "PII-700")],
)
async def test_a_find_names_its_text(text: str, rule: str) -> None:
    """The system prompt, personal data and secrets."""
    assert await rules(text) == [(rule, "b")]


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(LEAK.encode()).decode(),
        json.dumps(LEAK.replace(" ", "\n")),
        json.dumps(LEAK).replace("b", "\\u0062"),
        "\u200b".join(LEAK),
    ],
)
async def test_disguises_are_undone(text: str) -> None:
    """As they are in prompts; and the escapes of JSON, which a tool call is."""
    assert ("OUT-QUOTED", "b") in await rules(text)


async def test_what_the_request_holds_is_no_news() -> None:
    """A value that the user or the application sent is no leak. Of a long request the end is compared."""
    assert await rules(f"Ask {MAIL}.", request(user=f"I am {MAIL}")) == []
    assert await rules(f"Ask {MAIL}.", request(system=f"You are {MAIL}")) == []
    assert await rules(f"Ask {MAIL}.", request(user=MAIL + "x" * CHARACTERS)) != []


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("jon.frey@seepost.ch", "Write to Jon.Frey@Seepost.ch"),
        ("card 4111 1111 1111 1111", "The card 4111-1111-1111-1111 works."),
        ("IBAN DE89 3704 0044 0532 0130 00", "Pay to DE89370400440532013000."),
        ("Call +41 44 123 45 67 please", "I call +41441234567."),
    ],
)
async def test_another_spelling_of_what_was_sent_is_no_news(asked: str, answered: str) -> None:
    """Without the request each is a find."""
    assert await rules(answered) != []
    assert await rules(answered, request(user=asked)) == []


LETTERHEAD = "Jon Frey, 14 Harbour Street, Springfield 62704, phone 044 668 18 00, jon.frey@seepost.ch"


@pytest.mark.parametrize(
    "answered",
    [
        LETTERHEAD,
        "Jon Frey\n14 Harbour Street. Springfield 62704. Phone 044 668 18 00. Jon.Frey@Seepost.ch",
        "Jon Frey, 14 Harbour Street, 62704 Springfield, call 0446681800",
    ],
)
async def test_a_letterhead_of_the_users_own_data_is_no_news(answered: str) -> None:
    """However its parts are separated."""
    assert await rules(LETTERHEAD) != []
    assert await rules(answered, request(user=f"Write a letterhead: {LETTERHEAD}")) == []


async def test_a_value_of_a_tools_result_is_no_news() -> None:
    """The user asked for it; in another spelling, too."""
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    asked = {"role": "user", "content": "How can I reach Ann?"}
    result = {"role": "tool", "tool_call_id": "c", "content": json.dumps({"mail": MAIL, "phone": "+41 44 123 45 67"})}
    with_result = [asked, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    answered = f"Write to {MAIL.title()} or call +41441234567."
    without, texts = (extract({"messages": m}, "/chat/completions", "openai") for m in ([asked], with_result))
    assert {rule for rule, _ in await rules(answered, without)} >= {"PII-100", "PII-110"}
    assert await rules(answered, texts) == []


@pytest.mark.parametrize(
    "values",
    [
        [number * 1.37 for number in range(300)],
        [4006381000000 + number for number in range(300)],
        [{"sku": str(4006381000000 + number), "price": number * 1.1} for number in range(300)],
        [1_700_000_000_000 + number * 37 for number in range(300)],
    ],
    ids=["prices", "article numbers", "products", "moments"],
)
async def test_lists_of_numbers_are_no_cards(values: list[object]) -> None:
    """Prices with odd fractions, the numbers of articles, and milliseconds, some of which fit a check digit."""
    assert await rules(json.dumps(values)) == []
    assert await rules(json.dumps([*values, "4111 1111 1111 1111"])) == [("PII-200", "b")]


async def test_a_secret_is_known_to_the_user_alone() -> None:
    """One that the application or a tool holds is disclosed by being repeated."""
    secret = "Use AKIAIOSFODNN7QWERTZU."
    assert await rules(secret, request(user=secret)) == []
    assert await rules(secret, request(system=secret)) != []


@pytest.mark.parametrize(
    "text",
    [
        "Write to user@example.com or ada@docs.example.",
        "git clone git@github.com:psf/requests.git",
        "The documented key AKIAIOSFODNN7EXAMPLE.",
        "The White House is at 1600 Pennsylvania Avenue NW; its switchboard is 202-456-1414.",
        "In a crisis call 1-800-273-8255 or +49 800 1110111; Apple is at (800) 275-2273.",
        "Set the MAC address to 00:1A:2B:3C:4D:5E.",
        "The loss was 0.4539148803436467 after epoch 3, or 50.690000000000005.",
    ],
)
async def test_values_of_documentation_and_measured_numbers_are_nobodys(text: str) -> None:
    """Names that RFC 2606 reserves, the user of every git server, example keys, organisations, fractions."""
    assert await rules(text) == []


async def test_a_long_system_prompt_is_read_beside_the_loop() -> None:
    """And found all the same."""
    assert await rules(LEAK, request(system=("So be it. " * 2000) + SYSTEM)) == [("OUT-QUOTED", "b")]


async def test_nothing_is_looked_for_that_was_not_asked_for() -> None:
    """`answers.find`."""
    assert await rules(f"{LEAK} {MAIL} AKIAIOSFODNN7QWERTZU", find=["secrets"]) == [("PII-700", "b")]
