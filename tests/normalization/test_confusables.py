"""The table of confusables is consistent."""

from __future__ import annotations

from string import ascii_letters

from sidecar.normalization.confusables import CONFUSABLES


def test_every_entry_is_one_foreign_letter_for_one_ascii_letter() -> None:
    """Targets are ASCII letters, sources are not ASCII and occur once."""
    letters = [letter for group in CONFUSABLES.values() for letter in group]
    assert set(CONFUSABLES) <= set(ascii_letters)
    assert all(not letter.isascii() for letter in letters)
    assert len(letters) == len(set(letters))


def test_the_commonest_impostors_are_there() -> None:
    """Identical-looking Cyrillic and Greek letters are included."""
    table = {letter: target for target, group in CONFUSABLES.items() for letter in group}
    assert "".join(table[letter].lower() for letter in "асеорхуіѕј") == "aceopxyisj"
    assert "".join(table[letter].lower() for letter in "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ") == "abezhikmnoptyx"
