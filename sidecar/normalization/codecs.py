"""Decoders for text encoded inside text: base64 and similar, escapes, morse, bits, invisible characters.

Each codec is a pattern for the encoded text and a function that returns the decoded text, or None. Only readable text
counts, so hashes, keys, images and random bytes produce no view.
"""

from __future__ import annotations

import base64
import html
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple

import re2

from sidecar.normalization.normalized_text import Replacement

Decode = Callable[[str], str | None]
EncodedText = tuple[str, str]
"""The name of a codec, and the text it may have encoded."""
_HEX = "0123456789abcdefABCDEF"
PROBE = 64
"""Characters that expensive decoders try first, before the whole text."""
COMPRESSED = ("H4sI", "eJ", "eN", "eA", "eF")
"""How gzip and zlib begin in base64."""
MAX_DECOMPRESSED = 32_768
"""Bytes of a compressed text that are read."""
MIN_CHUNKS_LENGTH = 20
"""Characters of an encoding split into chunks, as for a single one; shorter ones decode by chance."""


class Codec(NamedTuple):
    """`pattern` finds encoded text, `decode` decodes it.

    To keep plain text cheap, the pattern is tried only where `hint` (a cheaper pattern) matches.
    """

    name: str
    pattern: str
    decode: Decode
    hint: str


def readable_text(data: bytes) -> str | None:
    """Bytes as text, if readable: UTF-8, or UTF-16 as some tools write it."""
    if data[1:8:2] == b"\0\0\0\0"[: len(data[1:8:2])] and len(data) > 8:
        data = data[::2]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < max(4, len(data) - 3):
            return None
        text = data[: error.start].decode()
    return text if _is_readable(text) else None


def _is_readable(text: str) -> bool:
    stripped = text.replace("\n", "").replace("\t", "").replace("\r", "")
    return (
        len(stripped) >= 4
        and (stripped.isprintable() or _is_mostly_printable(stripped))
        and any(c.isalpha() for c in stripped[:200])
    )


def _is_mostly_printable(text: str) -> bool:
    odd = "\u200b\u200c\u200d\ufeff\u00ad"
    return sum(c.isprintable() or c.isspace() or c in odd for c in text[:2000]) >= 0.95 * min(len(text), 2000)


def _base64(encoded: str) -> str | None:
    """One encoding that is cut into lines, or one in each line, and words after it."""
    if (text := decode_base64(encoded)) is not None or "\n" not in encoded:
        return text
    return "\n".join(decode_base64(line) or line for line in encoded.splitlines())


def decode_base64(encoded: str) -> str | None:
    """Base64 of text, also reversed, URL-safe, without padding, or of compressed text; a word in one case is none."""
    stripped = "".join(encoded.split()).rstrip("=").replace("-", "+").replace("_", "/")
    if stripped.islower() or stripped.isupper():
        return None
    stripped = stripped[: len(stripped) - (len(stripped) % 4 == 1)]
    if stripped.startswith(COMPRESSED):
        return readable_text(_decompressed(_unpadded(stripped)))
    return _decode_if_text(_unpadded, stripped) or _decode_if_text(_unpadded, stripped[::-1])


def _decompressed(data: bytes) -> bytes:
    """The beginning of what gzip or zlib compressed; nothing if it is damaged."""
    try:
        return zlib.decompressobj(wbits=47).decompress(data, MAX_DECOMPRESSED)
    except zlib.error:
        return b""


def _unpadded(encoded: str) -> bytes:
    return base64.b64decode(encoded + "=" * (-len(encoded) % 4))


def _chunks(encoded: str) -> str | None:
    """An encoding split into chunks of one length, possibly among words of that length, which alone are none."""
    candidates = "".join(c if c.isalnum() or c in "+/" else " " for c in encoded).split()
    parts = [piece for piece in candidates if piece != "+"]
    if all(map(str.isdigit, parts)):
        return _hex("".join(parts))
    for leading, trailing in product(range(_adjacent_words(parts[:3]) + 1), range(_adjacent_words(parts[:-3:-1]) + 1)):
        chunks = parts[leading : len(parts) - trailing]
        stripped = "".join(chunks)
        if len(stripped) < MIN_CHUNKS_LENGTH or all(map(_is_word, chunks)):
            continue
        if text := (None if stripped.strip(_HEX) else _hex(stripped)) or decode_base64(stripped) or _base32(stripped):
            return text
    return None


def _adjacent_words(parts: Sequence[str]) -> int:
    """How many of the first chunks may be words or numbers next to an encoding."""
    return len(parts[: next((index for index, p in enumerate(parts) if not (p.isdigit() or _is_word(p))), len(parts))])


def _is_word(piece: str) -> bool:
    """Letters in word case: no digit, and no capital but the first, or all."""
    return piece.isalpha() and (piece[1:].islower() or piece.isupper())


def _base32(encoded: str) -> str | None:
    stripped = encoded.rstrip("=").upper()
    stripped = stripped[: len(stripped) - (0, 1, 0, 1, 0, 0, 1, 0)[len(stripped) % 8]]
    return _decode_if_text(lambda s: base64.b32decode(s + "=" * (-len(s) % 8)), stripped)


def _base85(encoded: str) -> str | None:
    """Ascii85 in its brackets, or a long word of mixed punctuation; slow to decode, so most are rejected first."""
    if encoded.startswith("<~"):
        return _decode_if_text(base64.a85decode, encoded.removeprefix("<~").removesuffix("~>"))
    head = encoded[:PROBE]
    if "://" in encoded or sum(map(head.count, "!#$%&*+;<=>?@^`{|}~")) < 3:
        return None
    if 2 * len(head.translate(_NO_LOWER)) < len(head):
        return None
    return _decode_if_text(base64.b85decode, encoded) or _decode_if_text(base64.a85decode, encoded)


def _decode_if_text(decode: Callable[[str], bytes], encoded: str) -> str | None:
    """Decoded, if the beginning is already readable text."""
    try:
        if len(encoded) > 2 * PROBE and readable_text(decode(encoded[: PROBE - PROBE % 40])) is None:
            return None
        return readable_text(decode(encoded))
    except ValueError:
        return None


_NO_LOWER = str.maketrans("", "", ascii_lowercase)
"""Mixed punctuation with mostly lower case is code."""
_NO_HEX = str.maketrans("", "", " \t\r\n:,;-xX\\")


def _hex(encoded: str) -> str | None:
    stripped = encoded.replace("0x", "").translate(_NO_HEX)
    return _decode_if_text(bytes.fromhex, stripped[: len(stripped) // 2 * 2])


def _binary(encoded: str) -> str | None:
    words = encoded.replace(",", " ").split()
    if len(words) == 1:
        words = [words[0][i : i + 8] for i in range(0, len(words[0]) - 7, 8)]
    return readable_text(bytes(int(word[-8:], 2) for word in words))


def _decimal(encoded: str) -> str | None:
    words = encoded.replace(",", " ").replace(";", " ").split()
    return _codes(words, 10) or _codes(words, 8)


def _codes(words: Sequence[str], base: int) -> str | None:
    """Numbers of ASCII characters, if they form words."""
    try:
        codes = [int(word, base) for word in words]
    except ValueError:
        return None
    if any(not (32 <= code < 127 or code in {10, 13}) for code in codes):
        return None
    text = "".join(map(chr, codes))
    return text if sum(c.isalpha() or c == " " for c in text) >= 0.8 * len(text) else None


_NUMBER = re2.compile(r"\d+")


def _calls(encoded: str) -> str | None:
    return _codes(_NUMBER.findall(encoded), 10)


_BRAILLE = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵⠀", "abcdefghijklmnopqrstuvwxyz ", strict=True))


def _braille(encoded: str) -> str | None:
    return "".join(_BRAILLE.get(c, c if c.isspace() else "") for c in encoded)


def _url(encoded: str) -> str | None:
    return urllib.parse.unquote_plus(encoded, errors="replace")


def _quoted(encoded: str) -> str | None:
    return urllib.parse.unquote(encoded.replace("%", "%25").replace("=", "%"), errors="replace")


_ESCAPE = re2.compile(
    r"(?i)\\u\{([0-9a-f]{1,6})\}|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|\\x([0-9a-f]{2})|u\+([0-9a-f]{4,6}) ?"
    r"|\\([0-3]?[0-7]{2})"
)


def _escapes(encoded: str) -> str | None:
    text: str = _ESCAPE.sub(
        lambda m: _character(next(code for code in m.groups() if code), 8 if m.group(6) else 16), encoded
    )
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(code: str, base: int) -> str:
    number = int(code, base)
    return chr(number) if number < 0x110000 else "\ufffd"


_MORSE = (
    "a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. q--.- r.-. s... t- u..- v...- "
    "w.-- x-..- y-.-- z--.. 0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----."
)
MIN_MORSE_SHARE = 0.6
"""Minimum share of codes that are letters in morse."""
_MORSE_LETTERS = {pair[1:]: pair[0] for pair in _MORSE.split()}
_MORSE_SIGNS = str.maketrans("·•–—−_|\n", "..----/ ")


def _morse(encoded: str) -> str | None:
    """Letters, if most codes are letters, and not only those of rules and dotted lines."""
    words = [word.split() for word in encoded.translate(_MORSE_SIGNS).split("/")]
    codes = [code for word in words for code in word]
    text = " ".join("".join(_MORSE_LETTERS.get(code, "") for code in word) for word in words)
    letters = [c for c in text if c.isalpha()]
    return text if len(letters) >= max(5, MIN_MORSE_SHARE * len(codes)) and len(set(letters)) >= 4 else None


def _tags(encoded: str) -> str | None:
    return "".join(chr(ord(c) - 0xE0000) for c in encoded if 0xE0020 <= ord(c) < 0xE007F)


def _selectors(encoded: str) -> str | None:
    """One byte per variation selector, as in payloads after an emoji."""
    return readable_text(bytes(ord(c) - 0xFE00 if ord(c) < 0x10000 else ord(c) - 0xE0100 + 16 for c in encoded))


def _invisible_bits(encoded: str) -> str | None:
    """Two invisible characters as 0 and 1, in either order."""
    marks = sorted(set(encoded))
    if len(marks) != 2:
        return None
    bits = encoded.replace(marks[0], "0").replace(marks[1], "1")
    flipped = bits.translate({48: 49, 49: 48})
    return _binary(bits) or _binary(flipped)


_SIGN = r"[!#$%&*+;<=>?@^`{|}~]"
"""Signs of which base85 has many, with capitals and digits between them, and words and addresses few."""
_GAP = r"[!-~]{0,12}"
_PAIR = r"(?i:(?:0x|\\x)?[0-9a-f]{2}[\s:,;-]{0,2})"
_ESCAPED = r"(?:\\u\{[0-9a-f]{1,6}\}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|u\+[0-9a-f]{4,6} ?|\\[0-3]?[0-7]{2})"
_BETWEEN = r"""(?:[\s.,;|:_~-]{1,2}|["'][ +.,\n]{0,4}["'])"""
_CHUNKS_HINT = "|".join(rf"(?:[A-Za-z0-9+/]{{{width}}}{_BETWEEN}){{6}}" for width in (3, 4, 5, 6, 8, 10))
_CHUNKS = "|".join(
    rf"(?:[A-Za-z0-9+/]{{{width}}}{_BETWEEN}){{6,}}[A-Za-z0-9+/]{{1,{width}}}" for width in (3, 4, 5, 6, 8, 10)
)

_SELECTOR = r"[\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]"
_INVISIBLE = r"[\x{200b}-\x{200d}\x{2060}\x{2062}-\x{2064}\x{feff}]"

CODECS = (
    Codec("url", r"(?:[^\s%]{0,40}%[0-9A-Fa-f]{2}){3,}[^\s%]{0,40}", _url, r"%[0-9A-Fa-f]{2}"),
    Codec("quoted", r"(?:[^\s=]{0,40}=[0-9A-F]{2}){4,}[^\s=]{0,40}", _quoted, r"=[0-9A-F]{2}"),
    Codec(
        "entities", r"(?:[^\s&]{0,20}&#(?:[0-9]{2,9}|x[0-9a-fA-F]{2,9});){3,}[^\s&]{0,20}", html.unescape, "&#[0-9x]"
    ),
    Codec(
        "escapes", rf"(?i)(?:[^\s\\]{{0,12}}{_ESCAPED}){{3,}}[^\s\\]{{0,12}}", _escapes, r"(?i)\\[ux0-7]|u\+[0-9a-f]{4}"
    ),
    Codec("calls", r"(?i)(?:ch(?:a)?r\s?\(\s?[0-9]{2,3}\s?\)[\s+.,&|]{0,4}){5,}", _calls, r"(?i)cha?r\s?\(\s?[0-9]"),
    Codec("braille", r"[\x{2800}-\x{283f}][\x{2800}-\x{283f}\s]{5,}", _braille, r"[\x{2800}-\x{283f}]"),
    Codec("tags", r"[\x{e0020}-\x{e007e}]{2,}", _tags, r"[\x{e0020}-\x{e007e}]{2}"),
    Codec("selectors", rf"{_SELECTOR}{{4,}}", _selectors, rf"{_SELECTOR}{{4}}"),
    Codec("bits", rf"{_INVISIBLE}{{32,}}", _invisible_bits, rf"{_INVISIBLE}{{4}}"),
    Codec(
        "base64",
        r"(?:[A-Za-z0-9+/]{16,76}\r?\n[ \t]{0,8})+[A-Za-z0-9+/]{2,76}={0,2}|[A-Za-z0-9+/_-]{16,}={0,2}",
        _base64,
        r"[a-z0-9][A-Z][A-Za-z0-9+/_-]{0,10}[a-z0-9][A-Z]",
    ),
    Codec("base32", r"(?:[A-Z2-7]{16,}|[a-z2-7]{24,})={0,6}", _base32, r"[A-Z2-7]{16}|[a-z2-7]{24}"),
    Codec("base85", r"<~[!-u\s]{10,}~>|[!-~]{20,}", _base85, rf"<~|{_SIGN}(?:{_GAP}[A-Z0-9]{_GAP}{_SIGN}){{2}}"),
    Codec("hex", rf"{_PAIR}{{10,}}", _hex, rf"{_PAIR}{{10}}"),
    Codec("chunks", rf"\b(?:{_CHUNKS})={{0,2}}", _chunks, rf"\b(?:{_CHUNKS_HINT})"),
    Codec("binary", r"(?:[01]{8}){4,}|(?:[01]{7,8}[\s,]{1,2}){3,}[01]{7,8}", _binary, r"[01]{7}"),
    Codec("decimal", r"(?:[0-9]{2,3}[\s,;]{1,2}){9,}[0-9]{2,3}", _decimal, r"(?:[0-9]{2,3}[\s,;]{1,2}){3}"),
    Codec(
        "morse",
        r"(?:[.\-·•–—−_]{1,6}(?:[ \t]+|\s*[/|\n]\s*)){5,}[.\-·•–—−_]{1,6}",
        _morse,
        r"(?:[.\-·•–—−_]{1,6}[\s/|]+){4}",
    ),
)


def replacements(
    codec: Codec, pattern: re2._Regexp, text: str, decoded_texts: dict[EncodedText, str | None] | None = None
) -> Iterator[Replacement]:
    """The encoded texts of this codec that decode to text. `known` results are reused."""
    decoded_texts = {} if decoded_texts is None else decoded_texts
    for match in pattern.finditer(text):
        start, end = match.span()
        encoded = text[start:end]
        if (codec.name, encoded) not in decoded_texts:
            decoded_texts[codec.name, encoded] = codec.decode(encoded)
        decoded = decoded_texts[codec.name, encoded]
        if decoded and decoded != encoded:
            yield Replacement(start, end, decoded)
