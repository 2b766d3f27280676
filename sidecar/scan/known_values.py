"""Looks values up in texts without regard to their spelling: has somebody said this number or address already."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from sidecar.types import Segment, Source

CHARACTERS = 256 * 1024
"""Characters of the texts that are kept for comparison, the last ones."""
MIN_DIGITS = 7
"""Digits from which a number is recognised by its digits alone, whatever punctuation stands between them."""


class KnownValues:
    """Texts to look values up in. Prepared at the first look-up: most requests need none."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._text = "\n".join(texts)[-CHARACTERS:]

    def __contains__(self, value: object) -> bool:
        """Whether a text has this value, whatever its case and separators; of a long number the digits count."""
        letters, digits = self._comparable
        value_letters, value_digits = _comparable(str(value))
        value_digits = value_digits.strip()
        if not value_letters:
            return False
        return value_letters in letters or (len(value_digits) >= MIN_DIGITS and value_digits in digits)

    @cached_property
    def _comparable(self) -> tuple[str, str]:
        return _comparable(self._text)


def application_values(segments: Iterable[Segment]) -> KnownValues:
    """What the application's own texts hold: a contact address in a system prompt is there to be told."""
    return KnownValues(segment.text for segment in segments if segment.source is Source.APPLICATION)


def _comparable(text: str) -> tuple[str, str]:
    """The letters and digits of a text, case-folded; and its digits, with a space wherever letters separate them."""
    letters = "".join(filter(str.isalnum, text.casefold()))
    return letters, "".join(character if character.isdecimal() else " " for character in letters)
