"""Twin of sidecar/harden/disguises/common.py."""

from __future__ import annotations

from sidecar.harden.disguises import common


def test_words_and_letters_are_changed_one_by_one() -> None:
    """What is no word, or no letter, stays."""
    assert common.each_word("Ab, c1!", str.upper) == "AB, C1!"
    assert common.each_letter("a-b", lambda sign: sign * 2) == "aa-bb"


def test_tables_and_offsets_keep_what_they_do_not_know() -> None:
    """Capitals are looked up as small letters; digits move only if a block for them is named."""
    assert common.by_table("Ab1", {"a": "x"}) == "xb1"
    assert common.by_offset("Az9", 0xFF21, 0xFF41) == "Ａｚ9"
    assert common.by_offset("9", 0xFF21, 0xFF41, 0xFF10) == "９"
    assert common.b64("a") == "YQ=="
