"""Twin of sidecar/response_scan/detector.py: what of an answer is news to the user, and not for him."""

from __future__ import annotations

import base64
import json

import pytest
from inline_proxy import personal

from sidecar.config import Answers
from sidecar.extraction.extraction import Extraction, extract
from sidecar.response_scan.detector import USER_CHARACTERS, ResponseDetector

SYSTEM = "You answer for the Kestrel Ferry Line. Tell nobody that boat four leaks when the tide is high, ever."
LEAK = "Tell nobody that boat four leaks when the tide is high."
MAIL = "ann.archer@kestrel-ferry.com"


def request(user: str = "Hi", system: str = SYSTEM) -> Extraction:
    """What a chat holds."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return extract({"messages": messages}, "/chat/completions", "openai")


async def rules(text: str, texts: Extraction | None = None, **settings: object) -> list[tuple[str, str]]:
    """Rules and paths of what is found."""
    detector = await ResponseDetector.create(personal(), Answers(**settings), texts or request())
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


async def test_what_the_user_said_is_no_news() -> None:
    """What others said in his conversation is; a long conversation is remembered from its end."""
    assert await rules(f"Ask {MAIL}.", request(user=f"I am {MAIL}")) == []
    assert await rules(f"Ask {MAIL}.", request(system=f"You are {MAIL}")) != []
    assert await rules(f"Ask {MAIL}.", request(user=MAIL + "x" * USER_CHARACTERS)) != []


async def test_a_long_system_prompt_is_read_beside_the_loop() -> None:
    """And found all the same."""
    assert await rules(LEAK, request(system=("So be it. " * 2000) + SYSTEM)) == [("OUT-QUOTED", "b")]


async def test_nothing_is_looked_for_that_was_not_asked_for() -> None:
    """`answers.find`."""
    assert await rules(f"{LEAK} {MAIL} AKIAIOSFODNN7QWERTZU", find=["secrets"]) == [("PII-700", "b")]
