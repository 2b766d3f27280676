"""Encodings that carry text inside text: base64 and its kin, escapes, morse, bits, invisible characters.

Each codec is a pattern for the stretch and a function that gives its text, or None where there is none.
Only text that is readable counts, so hashes, keys, images and random bytes make no view.
"""

from __future__ import annotations

import base64
import html
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple

import re2

from sidecar.normalization.view import Run

Decode = Callable[[str], str | None]
Stretch = tuple[str, str]
"""The name of a codec, and what it may have written."""
_HEX = "0123456789abcdefABCDEF"
PROBE = 64
"""Characters that dear decoders try first, before they take on the whole stretch."""
LEAST = 20
"""Characters of an encoding cut into pieces: as many as one in a piece; what is shorter decodes by chance."""


class Codec(NamedTuple):
    """`pattern` finds the stretches, `decode` reads one.

    So that plain text pays little, the pattern is tried only where `hint` (a cheaper pattern) is met.
    """

    name: str
    pattern: str
    decode: Decode
    hint: str


def _text(data: bytes) -> str | None:
    """Bytes as text, if they are readable text: UTF-8, or UTF-16 as some tools write it."""
    if data[1:8:2] == b"\0\0\0\0"[: len(data[1:8:2])] and len(data) > 8:
        data = data[::2]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < max(4, len(data) - 3):
            return None
        text = data[: error.start].decode()
    return text if _readable(text) else None


def _readable(text: str) -> bool:
    bare = text.replace("\n", "").replace("\t", "").replace("\r", "")
    return len(bare) >= 4 and (bare.isprintable() or _mostly(bare)) and any(c.isalpha() for c in bare[:200])


def _mostly(text: str) -> bool:
    odd = "\u200b\u200c\u200d\ufeff\u00ad"
    return sum(c.isprintable() or c.isspace() or c in odd for c in text[:2000]) >= 0.95 * min(len(text), 2000)


def _base64(stretch: str) -> str | None:
    bare = "".join(stretch.split()).rstrip("=").replace("-", "+").replace("_", "/")
    bare = bare[: len(bare) - (len(bare) % 4 == 1)]
    return _tried(_unpadded, bare) or _tried(_unpadded, bare[::-1])


def _unpadded(stretch: str) -> bytes:
    return base64.b64decode(stretch + "=" * (-len(stretch) % 4))


def _chunks(stretch: str) -> str | None:
    """An encoding cut into pieces of one length; words of that length may stand around it, and alone are none."""
    cut = "".join(c if c.isalnum() or c in "+/" else " " for c in stretch).split()
    pieces = [piece for piece in cut if piece != "+"]
    if all(map(str.isdigit, pieces)):
        return _hex("".join(pieces))
    for before, behind in product(range(_beside(pieces[:3]) + 1), range(_beside(pieces[:-3:-1]) + 1)):
        kept = pieces[before : len(pieces) - behind]
        bare = "".join(kept)
        if len(bare) < LEAST or all(map(_is_word, kept)):
            continue
        if text := (None if bare.strip(_HEX) else _hex(bare)) or _base64(bare) or _base32(bare):
            return text
    return None


def _beside(pieces: Sequence[str]) -> int:
    """How many of the first pieces may be words or numbers that stand beside an encoding."""
    return len(pieces[: next((at for at, p in enumerate(pieces) if not (p.isdigit() or _is_word(p))), len(pieces))])


def _is_word(piece: str) -> bool:
    """Letters as words have them: no digit, and no capital but the first, or all."""
    return piece.isalpha() and (piece[1:].islower() or piece.isupper())


def _base32(stretch: str) -> str | None:
    bare = stretch.rstrip("=").upper()
    bare = bare[: len(bare) - (0, 1, 0, 1, 0, 0, 1, 0)[len(bare) % 8]]
    return _tried(lambda s: base64.b32decode(s + "=" * (-len(s) % 8)), bare)


def _base85(stretch: str) -> str | None:
    """Ascii85 in its brackets, or a long word of mixed signs; Python decodes it slowly, so most are turned away."""
    if stretch.startswith("<~"):
        return _tried(base64.a85decode, stretch.removeprefix("<~").removesuffix("~>"))
    begun = stretch[:PROBE]
    if "://" in stretch or sum(map(begun.count, "!#$%&*+;<=>?@^`{|}~")) < 3:
        return None
    if 2 * len(begun.translate(_NO_LOWER)) < len(begun):
        return None
    return _tried(base64.b85decode, stretch) or _tried(base64.a85decode, stretch)


def _tried(decode: Callable[[str], bytes], stretch: str) -> str | None:
    """Decoded, if the beginning already reads as text."""
    try:
        if len(stretch) > 2 * PROBE and _text(decode(stretch[: PROBE - PROBE % 40])) is None:
            return None
        return _text(decode(stretch))
    except ValueError:
        return None


_NO_LOWER = str.maketrans("", "", ascii_lowercase)
"""Text of mixed signs that is mostly lower case is code."""
_NO_HEX = str.maketrans("", "", " \t\r\n:,;-xX\\")


def _hex(stretch: str) -> str | None:
    bare = stretch.replace("0x", "").translate(_NO_HEX)
    return _tried(bytes.fromhex, bare[: len(bare) // 2 * 2])


def _binary(stretch: str) -> str | None:
    words = stretch.replace(",", " ").split()
    if len(words) == 1:
        words = [words[0][i : i + 8] for i in range(0, len(words[0]) - 7, 8)]
    return _text(bytes(int(word[-8:], 2) for word in words))


def _decimal(stretch: str) -> str | None:
    words = stretch.replace(",", " ").replace(";", " ").split()
    return _codes(words, 10) or _codes(words, 8)


def _codes(words: Sequence[str], base: int) -> str | None:
    """Numbers of ASCII characters, if they make words."""
    try:
        codes = [int(word, base) for word in words]
    except ValueError:
        return None
    if any(not (32 <= code < 127 or code in {10, 13}) for code in codes):
        return None
    text = "".join(map(chr, codes))
    return text if sum(c.isalpha() or c == " " for c in text) >= 0.8 * len(text) else None


_NUMBER = re2.compile(r"\d+")


def _calls(stretch: str) -> str | None:
    return _codes(_NUMBER.findall(stretch), 10)


_BRAILLE = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵⠀", "abcdefghijklmnopqrstuvwxyz ", strict=True))


def _braille(stretch: str) -> str | None:
    return "".join(_BRAILLE.get(c, c if c.isspace() else "") for c in stretch)


def _url(stretch: str) -> str | None:
    return urllib.parse.unquote_plus(stretch, errors="replace")


def _quoted(stretch: str) -> str | None:
    return urllib.parse.unquote(stretch.replace("%", "%25").replace("=", "%"), errors="replace")


_ESCAPE = re2.compile(
    r"(?i)\\u\{([0-9a-f]{1,6})\}|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|\\x([0-9a-f]{2})|u\+([0-9a-f]{4,6}) ?"
    r"|\\([0-3]?[0-7]{2})"
)


def _escapes(stretch: str) -> str | None:
    text: str = _ESCAPE.sub(
        lambda m: _character(next(code for code in m.groups() if code), 8 if m.group(6) else 16), stretch
    )
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(code: str, base: int) -> str:
    number = int(code, base)
    return chr(number) if number < 0x110000 else "\ufffd"


_MORSE = (
    "a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. q--.- r.-. s... t- u..- v...- "
    "w.-- x-..- y-.-- z--.. 0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----."
)
MORSE = 0.6
"""The share of codes that are letters in anything that was written in morse."""
_LETTER = {pair[1:]: pair[0] for pair in _MORSE.split()}
_SIGNS = str.maketrans("·•–—−_|\n", "..----/ ")


def _morse(stretch: str) -> str | None:
    """Letters, if most codes are some, and not those of rules and dotted lines alone."""
    words = [word.split() for word in stretch.translate(_SIGNS).split("/")]
    codes = [code for word in words for code in word]
    text = " ".join("".join(_LETTER.get(code, "") for code in word) for word in words)
    letters = [c for c in text if c.isalpha()]
    return text if len(letters) >= max(5, MORSE * len(codes)) and len(set(letters)) >= 4 else None


def _tags(stretch: str) -> str | None:
    return "".join(chr(ord(c) - 0xE0000) for c in stretch if 0xE0020 <= ord(c) < 0xE007F)


def _selectors(stretch: str) -> str | None:
    """A byte per variation selector, as payloads behind an emoji are written."""
    return _text(bytes(ord(c) - 0xFE00 if ord(c) < 0x10000 else ord(c) - 0xE0100 + 16 for c in stretch))


def _invisible_bits(stretch: str) -> str | None:
    """Two invisible characters as 0 and 1, whichever way round."""
    marks = sorted(set(stretch))
    if len(marks) != 2:
        return None
    bits = stretch.replace(marks[0], "0").replace(marks[1], "1")
    flipped = bits.translate({48: 49, 49: 48})
    return _binary(bits) or _binary(flipped)


_LONG = r"(?:\A|[^!-~])[!-~]{16}"
"""A long word, met once only: a match in every place would take RE2 four times as long."""
_PAIR = r"(?i:(?:0x|\\x)?[0-9a-f]{2}[\s:,;-]{0,2})"
_ESCAPED = r"(?:\\u\{[0-9a-f]{1,6}\}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|u\+[0-9a-f]{4,6} ?|\\[0-3]?[0-7]{2})"
_BETWEEN = r"""(?:[\s.,;|:_~-]{1,2}|["'][ +.,\n]{0,4}["'])"""
_CUT = "|".join(rf"(?:[A-Za-z0-9+/]{{{width}}}{_BETWEEN}){{6}}" for width in (4, 5, 6, 8, 10))
_PIECES = "|".join(
    rf"(?:[A-Za-z0-9+/]{{{width}}}{_BETWEEN}){{6,}}[A-Za-z0-9+/]{{1,{width}}}" for width in (4, 5, 6, 8, 10)
)

_SELECTOR = r"[\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]"
_UNSEEN = r"[\x{200b}-\x{200d}\x{2060}\x{2062}-\x{2064}\x{feff}]"

CODECS = (
    Codec("url", r"(?:[^\s%]{0,40}%[0-9A-Fa-f]{2}){3,}[^\s%]{0,40}", _url, r"%[0-9A-Fa-f]{2}"),
    Codec("quoted", r"(?:[^\s=]{0,40}=[0-9A-F]{2}){4,}[^\s=]{0,40}", _quoted, r"=[0-9A-F]{2}"),
    Codec(
        "entities", r"(?:[^\s&]{0,20}&#(?:[0-9]{2,7}|x[0-9a-fA-F]{2,6});){3,}[^\s&]{0,20}", html.unescape, "&#[0-9x]"
    ),
    Codec(
        "escapes", rf"(?i)(?:[^\s\\]{{0,12}}{_ESCAPED}){{3,}}[^\s\\]{{0,12}}", _escapes, r"(?i)\\[ux0-7]|u\+[0-9a-f]{4}"
    ),
    Codec("calls", r"(?i)(?:ch(?:a)?r\s?\(\s?[0-9]{2,3}\s?\)[\s+.,&|]{0,4}){5,}", _calls, r"(?i)cha?r\s?\(\s?[0-9]"),
    Codec("braille", r"[\x{2800}-\x{283f}][\x{2800}-\x{283f}\s]{5,}", _braille, r"[\x{2800}-\x{283f}]"),
    Codec("tags", r"[\x{e0020}-\x{e007e}]{2,}", _tags, r"[\x{e0020}-\x{e007e}]{2}"),
    Codec("selectors", rf"{_SELECTOR}{{4,}}", _selectors, rf"{_SELECTOR}{{4}}"),
    Codec("bits", rf"{_UNSEEN}{{32,}}", _invisible_bits, rf"{_UNSEEN}{{4}}"),
    Codec("base64", r"(?:[A-Za-z0-9+/]{60,76}\r?\n)*[A-Za-z0-9+/_-]{16,}={0,2}", _base64, _LONG),
    Codec("base32", r"(?:[A-Z2-7]{16,}|[a-z2-7]{24,})={0,6}", _base32, _LONG),
    Codec("base85", r"<~[!-u\s]{10,}~>|[!-~]{20,}", _base85, _LONG),
    Codec("hex", rf"{_PAIR}{{10,}}", _hex, rf"{_PAIR}{{10}}"),
    Codec("chunks", rf"\b(?:{_PIECES})={{0,2}}", _chunks, rf"\b(?:{_CUT})"),
    Codec("binary", r"(?:[01]{8}){4,}|(?:[01]{7,8}[\s,]{1,2}){3,}[01]{7,8}", _binary, r"[01]{7}"),
    Codec("decimal", r"(?:[0-9]{2,3}[\s,;]{1,2}){9,}[0-9]{2,3}", _decimal, r"(?:[0-9]{2,3}[\s,;]{1,2}){3}"),
    Codec(
        "morse",
        r"(?:[.\-·•–—−_]{1,6}(?:[ \t]+|\s*[/|\n]\s*)){5,}[.\-·•–—−_]{1,6}",
        _morse,
        r"(?:[.\-·•–—−_]{1,6}[\s/|]+){4}",
    ),
)


def runs(
    codec: Codec, pattern: re2._Regexp, text: str, known: dict[Stretch, str | None] | None = None
) -> Iterator[Run]:
    """The stretches of this codec that hold text. What is `known` of the same stretch is not decoded again."""
    known = {} if known is None else known
    for found in pattern.finditer(text):
        start, end = found.span()
        stretch = text[start:end]
        if (codec.name, stretch) not in known:
            known[codec.name, stretch] = codec.decode(stretch)
        decoded = known[codec.name, stretch]
        if decoded and decoded != stretch:
            yield Run(start, end, decoded)
