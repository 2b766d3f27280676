"""Visible form of a text: invisible characters removed, compatibility forms and look-alikes as plain letters.

Two views: `unhidden` removes control and format characters and applies NFKC per character, so that rules in any script
match their words; `folded` also removes accents from Latin, Greek and Cyrillic letters and replaces look-alikes of
ASCII letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

import re2

from sidecar.normalization.confusables import CONFUSABLES
from sidecar.normalization.normalized_text import NormalizedText, neighbourhoods, translate

FORMAT = (
    r"\x{ad}\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{202a}-\x{202e}"
    r"\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}"
)
"""Invisible characters, as the inside of an RE2 class."""

_COMPATIBLE = (
    r"\x{a0}\x{aa}\x{b2}\x{b3}\x{b9}\x{ba}\x{1d2c}-\x{1d6a}\x{2000}-\x{200a}\x{202f}\x{2070}-\x{209c}\x{2100}-\x{214f}"
    r"\x{2460}-\x{24ff}\x{3000}\x{ff10}-\x{ff19}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{1d400}-\x{1d7ff}\x{1f100}-\x{1f1ff}"
)
_ACCENTED = ((0xC0, 0x24F), (0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1E00, 0x1EFF), (0x20D0, 0x20FF))
"""Blocks of letters with accents, and of accents."""
_LOOKALIKES = {ord(letter): ascii_letter for ascii_letter, letters in CONFUSABLES.items() for letter in letters}


def _for_re(pattern: str) -> str:
    """The same class in the syntax of `re`."""
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda match: f"\\U{int(match.group(1), 16):08x}", pattern)


_CONTROLS = r"\x{0}-\x{8}\x{b}\x{e}-\x{1f}\x{7f}-\x{84}\x{86}-\x{9f}"
_SEPARATOR_CONTROLS = "\x0b\x1c\x1d\x1e\x1f"
"""Control characters that separate lines, fields and records: they also separate words and numbers."""
_ASCII_CONTROLS = bytes(code for code in range(128) if re.match(_for_re(f"[{_CONTROLS}]"), chr(code)))
_INVISIBLE = re.compile(_for_re(f"[{_CONTROLS}{FORMAT}{_COMPATIBLE}]"))
"""Applied to a few hundred code points at a time, where Python's `re` is faster than RE2 with its encoding."""
_FOLDABLE = frozenset(map(chr, (*_LOOKALIKES, *(code for first, last in _ACCENTED for code in range(first, last + 1)))))
"""A set: hundreds of letters that lie apart cost an expression ten times as much."""
_MARKED_LETTER = re2.compile(r"([A-Za-z])\pM+")
_INVISIBLE_CHARACTER = re2.compile(f"[{_CONTROLS}{FORMAT}]")
_MAX_TABLE = 50_000
"""Letters cached per table; there are 1.1 million, and clients choose which occur."""


class _LazyTable(dict[int, str]):
    """A translation table that fills itself on demand."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_TABLE:
            self.clear()
        self[code] = replacement = self._rule(chr(code))
        return replacement


def _visible_form(letter: str) -> str:
    if _is_surrogate(letter):
        return "\ufffd"
    if letter in _SEPARATOR_CONTROLS:
        return "\n"
    return "" if _INVISIBLE_CHARACTER.search(letter) else unicodedata.normalize("NFKC", letter)


def _folded_form(letter: str) -> str:
    if ord(letter) in _LOOKALIKES:
        return _LOOKALIKES[ord(letter)]
    visible = _visible_form(letter)
    if _is_western_mark(letter) and unicodedata.category(letter) in {"Mn", "Me"}:
        return ""
    base = unicodedata.normalize("NFD", visible)
    if len(base) > 1 and ord(base[0]) < 0x530:
        base = "".join(part for part in base if not unicodedata.combining(part))
    else:
        base = visible
    return "".join(_LOOKALIKES.get(ord(part), part) for part in base)


def _is_western_mark(letter: str) -> bool:
    return 0x300 <= ord(letter) < 0x370 or 0x1AB0 <= ord(letter) < 0x1B00 or 0x20D0 <= ord(letter) < 0x2100


def _is_surrogate(letter: str) -> bool:
    return 0xD800 <= ord(letter) < 0xE000


_BREAK_POINTS = re.compile("\u00ad|(?:(?<=\\s)|\\A)[\u200b\u2060\ufeff]+|[\u200b\u2060\ufeff]+(?=\\s|\\Z)")
_SPACES = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
_VISIBLE_TABLE, _FOLD_TABLE = _LazyTable(_visible_form), _LazyTable(_folded_form)


def strip_invisible(text: str) -> str:
    """The text without invisible characters, and with compatibility forms as plain letters."""
    has_invisible = _has_control(text) if text.isascii() else _INVISIBLE.search(text)
    return text.translate(_VISIBLE_TABLE) if has_invisible else text


def is_typeset(text: str) -> bool:
    """Whether all that is invisible in it is typography: soft hyphens, spaces of any width, break points at spaces."""
    plain = _BREAK_POINTS.sub("", text).translate(_SPACES)
    return strip_invisible(plain) == plain


def fold(text: str) -> str:
    """The same without accents on Western letters, and with look-alikes as the letters they resemble.

    No combining mark of any script remains on an ASCII letter.
    """
    return text if text.isascii() else _MARKED_LETTER.sub(r"\1", text.translate(_FOLD_TABLE))


def foldings(view: NormalizedText) -> Iterator[NormalizedText]:
    """The views of this text that look different to a reader; none for ASCII without control characters.

    Of a long text only the affected parts and their surroundings.
    """
    if view.text.isascii() and not _has_control(view.text):
        return
    current = view
    if places := neighbourhoods(view.text, _has_invisible):
        visible = translate(view, "unhidden", _VISIBLE_TABLE, hidden=False, places=places)
        if visible:
            yield visible
            current = visible if places == [(0, len(view.text))] else view
    if current.text.isascii():
        return
    places = neighbourhoods(current.text, _has_foldable)
    if places and (folded_view := translate(current, "folded", _FOLD_TABLE, hidden=False, places=places)):
        yield folded_view


def _has_control(ascii_text: str) -> bool:
    """Whether it has a control character other than tabs and line breaks; a seventh of what a pattern would cost."""
    data = ascii_text.encode()
    return len(data) != len(data.translate(None, _ASCII_CONTROLS))


def _has_invisible(text: str) -> bool:
    return _has_control(text) if text.isascii() else _INVISIBLE.search(text) is not None


def _has_foldable(text: str) -> bool:
    return not text.isascii() and not _FOLDABLE.isdisjoint(text)
