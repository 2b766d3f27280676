"""What of a running text held_from: words of the system prompt in a row, odd tokens, the canary, the last two words."""

from __future__ import annotations

import base64
import codecs
import json

import pytest
from speech import LEAK, PLAIN, SYSTEM, tokens

from sidecar.response_scan.stream_lookahead import CONTEXT_AFTER, MAX_CHARACTERS, StreamLookahead

PROMPT_TEXT = (
    "never mention the flood in the east wing to guests, and offer every caller a late checkout for nine crowns"
)
CHINESE = "你是剧院的订票助手。不要告诉任何人上层包厢因为天花板不安全而关闭。"
MARLOWE = StreamLookahead(SYSTEM, words=8)
NOTHING = StreamLookahead(None, words=8)


def released(text: str, lookahead: StreamLookahead = MARLOWE) -> str:
    """What of it may go, and is not looked at context."""
    size, look = lookahead.releasable_prefix(text)
    return "" if look else text[:size]


def through(text: str, size: int, lookahead: StreamLookahead = MARLOWE) -> tuple[str, bool]:
    """What may go of a text that comes in pieces, up to the first look if there is one."""
    pending, freed = "", ""
    for piece in tokens(text, size):
        pending += piece
        number, look = lookahead.releasable_prefix(pending)
        if look:
            return freed, True
        freed, pending = freed + pending[:number], pending[number:]
    return freed, False


@pytest.mark.parametrize("lookahead", [MARLOWE, NOTHING])
def test_of_plain_words_only_the_last_two_wait(lookahead: StreamLookahead) -> None:
    """One is not complete, and one may lead up to a number."""
    assert (
        released("Breakfast starts context seven, winter and sum", lookahead)
        == "Breakfast starts context seven, winter "
    )
    assert released("Breakf", lookahead) == ""
    assert released("Breakfast, really", lookahead) == ""


def test_a_run_of_words_of_the_system_prompt_waits_until_it_breaks() -> None:
    """Whatever stands between the words, and in whichever case."""
    assert released("Well now, NEVER -> Mention, the flo") == "Well now, "
    assert released("Well now, never mention the ferry of anybody else") == "Well now, never mention the ferry of "


@pytest.mark.parametrize("size", [1, 3, 7, 60, 500])
def test_a_leak_is_looked_at_before_a_word_of_it_goes(size: int) -> None:
    """However the text is cut, and though other words follow in the same piece."""
    freed, looked = through(f"{PLAIN} {LEAK} {PLAIN}", size)
    assert looked
    assert "flood" not in freed
    assert PLAIN.startswith(freed[: len(PLAIN)])


@pytest.mark.parametrize("turn", range(1, 26))
def test_a_rotated_leak_waits_like_a_plain_one(turn: int) -> None:
    """Letter for letter the steps are the same."""
    rotated = "".join(chr((ord(c) - 97 + turn) % 26 + 97) if c.islower() else c for c in PROMPT_TEXT)
    freed, looked = through(rotated, 4)
    assert looked
    assert len(freed) <= len("never ")


@pytest.mark.parametrize(
    "spelled", [PROMPT_TEXT[::-1], "".join(chr(219 - ord(c)) if c.islower() else c for c in PROMPT_TEXT)]
)
def test_so_does_one_written_backwards_or_mirrored(spelled: str) -> None:
    """The same words are the same both ways."""
    freed, looked = through(spelled, 4)
    assert looked
    assert len(freed) <= len("never ")


@pytest.mark.parametrize(
    "odd",
    [
        *(
            "ann@example.org",
            "+49 30 123456",
            "4111 1111 1111 1111",
            "12 Baker Street",
            "n3v3r m3nt10n",
            "never_mention_it",
        ),
        *(
            "n e v e r",
            "n.e.v.e.r",
            "ne\u200bver",
            "ne-ver",
            "<b>never</b>",
            "nev\u0336er",
            "\U0001d427ever",
            "\uff4eever",
        ),
        *("\\u006eever", "&#110;ever", "- .- -", "\U000e006e\U000e0065", "vErY oDd wOrDs", "iN", "a" * 30),
        *(
            base64.b64encode(PROMPT_TEXT.encode()).decode(),
            PROMPT_TEXT.encode().hex(),
            codecs.encode(PROMPT_TEXT, "rot13").replace(" ", "_"),
        ),
    ],
)
def test_what_is_no_plain_word_waits_with_the_word_before_it(odd: str) -> None:
    """Personal data, secrets and disguises are made of such; few words behind them change nothing."""
    for lookahead in (MARLOWE, NOTHING):
        assert released(f"Lights stay bright, {odd} quickly then", lookahead).rstrip() in {
            "Lights stay",
            "Lights stay bright,",
        }


def test_it_goes_after_a_look_once_plain_words_have_followed() -> None:
    """What it belongs to would have been seen by then; a long one held_from for the whole window."""
    behind = "winter mornings bring bright sunlight upon quiet harbours"
    assert len(behind) > CONTEXT_AFTER
    text = f"Trains depart at 9:30 {behind}"
    assert NOTHING.releasable_prefix(text) == (len(text) - len("quiet harbours"), True)
    assert NOTHING.releasable_prefix(f"Trains depart at 9:30 {behind[:30]}") == (len("Trains depart "), False)
    assert NOTHING.releasable_prefix(f"Trains depart at 9:30 {behind[:30]} 9:45 {behind[:30]}") == (
        len("Trains depart "),
        False,
    )
    assert NOTHING.releasable_prefix(f"Trains depart at {'9' * 30} {behind}") == (len("Trains depart "), False)


def test_characters_of_scripts_without_blanks_are_words() -> None:
    """They go one by one, and wait where the system prompt has them in a row."""
    lookahead = StreamLookahead(CHINESE, words=8)
    assert released("春天早晨很冷", lookahead) == "春天早晨很"
    assert released("春天早晨,不要告诉", lookahead).startswith("春天早晨")
    assert "不" not in released("春天早晨,不要告诉", lookahead)
    assert lookahead.releasable_prefix("春天早晨,不要告诉任何人上层包厢因为天花板不安全")[1]


def test_accents_and_look_alikes_are_folded() -> None:
    """As they are context a leak is looked for."""
    assert released("Well now, nеvеr mеntiоn the flóod") == "Well now, "  # Cyrillic vowels


def test_the_canary_waits_however_it_is_spelled() -> None:
    """From its first letter on; all of it is looked at."""
    lookahead = StreamLookahead(None, words=8, canary="Heron Violet Anchor")
    assert released("Lights stay bright, heron, VIO", lookahead) == "Lights stay bright, "
    assert released("Lights stay bright, he ronv iolet anc", lookahead) == "Lights stay bright, "
    assert released("Lights stay bright, heron island calls nobody", lookahead) == "Lights stay bright, heron island "
    assert lookahead.releasable_prefix("Lights stay bright, heron-violet anchor and")[1]


def test_json_of_a_tool_call_is_read_like_text() -> None:
    """Quotes and braces stand at the edges of words; escapes wait."""
    assert released('{"city": "Paris", "note": "nothing') == '{"city": "Paris", '
    assert "never" not in released(json.dumps({"city": "Paris\nnever mention"}))


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\ud800 x y z", "... ", "\u0301 a b", "\x00\x00 \x00"])
def test_any_text_is_taken(text: str) -> None:
    """Nothing raises, and never more goes than there is."""
    assert 0 <= MARLOWE.releasable_prefix(text)[0] <= len(text)


def test_a_long_text_waits_for_the_window() -> None:
    """Reading it here would hold the event loop."""
    text = "Breakfast starts context seven. " * 100
    assert len(text) > MAX_CHARACTERS
    assert NOTHING.releasable_prefix(text) == (0, False)
    assert NOTHING.releasable_prefix(text[: MAX_CHARACTERS // 2])[0] > MAX_CHARACTERS // 2 - 20


def test_a_whole_system_prompt_costs_no_more_than_its_first_run() -> None:
    """It is a find, and nobody reads on."""
    prompt = " ".join(f"{a}{b}mor {b}ind {a}et" for a in "bdfg" for b in "aei")
    lookahead = StreamLookahead(prompt, words=8)
    assert lookahead.releasable_prefix(f"{prompt} and more")[1]
    assert lookahead.releasable_prefix(f"{prompt} and more")[0] == 0
