"""Substitution ciphers: rotations, Atbash, ROT47, and reversed text.

Trying every cipher on every text would cost a pass each. Instead one set of patterns searches for trigger words of
attacks in the spelling of each cipher; only matching ciphers are undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from string import ascii_lowercase, ascii_uppercase

import re2

from sidecar.normalization.normalized_text import NormalizedText, Span, neighbourhoods, reverse, translate

_WORDS = (
    "ignore disregard forget previous prior instruct system prompt reveal output repeat respond respons answer "
    "please include follow print your display secret password jailbreak without restrict "
    "ignorier vergiss anweisung ignorez oublie instrucc olvida sistema"
)
_TRIGGER_WORDS = _WORDS.split()
REVERSED = "reversed"


def _rotation(by: int) -> dict[int, str]:
    plain = ascii_lowercase + ascii_uppercase
    rotated = "".join(alphabet[(i + by) % 26] for alphabet in (ascii_lowercase, ascii_uppercase) for i in range(26))
    return {ord(a): b for a, b in zip(plain, rotated, strict=True)}


def _atbash() -> dict[int, str]:
    plain, mirrored = ascii_lowercase + ascii_uppercase, ascii_lowercase[::-1] + ascii_uppercase[::-1]
    return {ord(a): b for a, b in zip(plain, mirrored, strict=True)}


_DECIPHER = {
    **{f"rot{by}": _rotation(-by) for by in range(1, 26)},
    "atbash": _atbash(),
    "rot47": {code: chr(33 + (code - 33 + 47) % 94) for code in range(33, 127)},
}
_ENCIPHER = {name: {ord(plain): chr(code) for code, plain in table.items()} for name, table in _DECIPHER.items()}


def hint_patterns() -> Iterator[tuple[str, str]]:
    """For each cipher its name and a pattern of the trigger words in its spelling."""
    for name, table in _ENCIPHER.items():
        words = "|".join(re2.escape(word.translate(table)) for word in _TRIGGER_WORDS)
        yield name, rf"(?i)(?:{words})" if name == "rot47" else rf"(?i)\b(?:{words})[a-z]{{0,6}}\b"
    backwards = "|".join(word[::-1] for word in _TRIGGER_WORDS)
    yield REVERSED, rf"(?i)\b[a-z]{{0,6}}(?:{backwards})\b"


def decipher(view: NormalizedText, name: str, places: Sequence[Span] | None = None) -> NormalizedText | None:
    """The text, or these places of it, with this cipher undone."""
    if name == REVERSED:
        return reverse(view, name, places)
    return translate(view, name, _DECIPHER[name], hidden=True, places=places)


def places(view: NormalizedText, name: str) -> list[Span]:
    """The enciphered trigger words and their surroundings."""
    return neighbourhoods(view.text, _pattern(name).search)


@cache
def _pattern(name: str) -> re2._Regexp:
    return re2.compile(dict(hint_patterns())[name])
