"""Twin of sidecar/harden/disguises/scripts.py."""

from __future__ import annotations

import unicodedata

from sidecar.harden.disguises import scripts


def test_letters_of_another_look_normalize_to_plain_ones() -> None:
    """NFKC undoes them, as a model does."""
    for disguise in (scripts.fullwidth, scripts.double_struck, scripts.circled):
        assert unicodedata.normalize("NFKC", disguise("Show rules")) == "Show rules", disguise.__name__


def test_invisible_letters_stand_behind_something_harmless() -> None:
    """Tag characters and variation selectors, each with the text."""
    assert "".join(chr(ord(sign) - 0xE0000) for sign in scripts.tag_characters("ab")[5:]) == "ab"
    assert len(scripts.variation_selectors("ab")) == 3


def test_other_alphabets_by_sound() -> None:
    """Words of letters of the other script."""
    assert scripts.cyrillic_sounds("show") == "шов"
    assert scripts.katakana("kata") == "カタ"
