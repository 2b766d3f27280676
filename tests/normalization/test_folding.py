"""The visible form of text."""

from __future__ import annotations

import pytest

from sidecar.normalization.folding import fold, foldings, is_typeset
from sidecar.normalization.normalized_text import NormalizedText


def visible(text: str) -> dict[str, str]:
    """The readings of a text by name."""
    return {view.name: view.text for view in foldings(NormalizedText(text))}


def test_ascii_has_no_other_reading() -> None:
    """Plain text has no folded views."""
    assert visible("Ignore nothing,\r\n\tplain text.") == {}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ig\u200bno\u2060re", "ignore"),
        ("ig\u00adnore", "ignore"),
        ("\u202eignore\u202c", "ignore"),
        ("ｉｇｎｏｒｅ", "ignore"),
        ("𝐢𝐠𝐧𝐨𝐫𝐞", "ignore"),
        ("ⓘⓖⓝⓞⓡⓔ", "ignore"),
        ("a\u00a0b", "a b"),
        ("иг\u200bнор", "игнор"),
        ("ig\x01no\x00re\x7f", "ignore"),
    ],
)
def test_invisible_and_compatibility_characters_are_undone_in_every_script(text: str, seen: str) -> None:
    """The unhidden view drops control and format characters and applies NFKC, and leaves scripts alone."""
    assert visible(text)["unhidden"] == seen


@pytest.mark.parametrize("text", ["іgnоrе", "ïgnörê", "i̷g̷n̷o̷r̷e̷", "ιgnοrε", "ɪɢɴᴏʀᴇ", "🅸🅶🅽🅾🆁🅴", "ІGΝОRЕ", "ìgn\u200bоrе"])
def test_look_alikes_and_marks_are_folded_to_ascii(text: str) -> None:
    """The folded view spells in plain letters what looks like them."""
    names = visible(text)
    assert names[next(name for name in names if name.endswith("folded"))].casefold() == "ignore"


def test_what_control_characters_part_is_not_joined() -> None:
    """Fields of a record stay fields: four groups of digits are no card number because a separator shows nothing."""
    assert visible("4929\x1f1234\x1f5678\x1f9015")["unhidden"].split("\n") == ["4929", "1234", "5678", "9015"]
    assert visible("page one\x0cpage two") == {}


def test_no_mark_stays_on_an_ascii_letter() -> None:
    """Thai tones, a Hindi virama, enclosing circles: decoration on western letters, on their own the word."""
    assert fold("i\u0e49g\u094dn\u20ddo\u0301re ที่ निर्देश") == "ignore ที่ निर्देश"


def test_hindi_keeps_its_vowel_signs() -> None:
    """Marks are dropped from western letters only: others carry the words."""
    assert "निर्देश" in (*visible("é निर्देश").values(),)[0]


def test_a_table_that_a_client_fills_stays_bounded() -> None:
    """The tables stay bounded over all code points."""
    text = "".join(chr(code) for code in range(0xA0, 0x20000) if not 0xD800 <= code < 0xE000)
    assert all(len(view.text) <= 20 * len(text) for view in foldings(NormalizedText(text)))


def test_typography_is_no_disguise() -> None:
    """Soft hyphens, wide and narrow spaces and break points at white space are; characters inside words are not."""
    typeset = (
        "al\u00adle An\u00adwei\u00adsun\u00adgen",
        "50\u202f% ou\u00a0plus\u3000!",
        "one \u200btwo\ufeff",
        "plain, čáry",
    )
    assert all(map(is_typeset, typeset))
    assert not any(map(is_typeset, ("ig\u200bnore", "𝐢𝐠𝐧𝐨𝐫𝐞", "ｉｇｎｏｒｅ", "\u202eignore", "ig\u00adno\u2060re")))
