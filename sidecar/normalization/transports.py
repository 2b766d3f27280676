"""Decoders for how mail, the web and terminals transport text: percent-encoding, UTF-7, uuencode, base64, backspaces.

Percent-encoding is common in addresses and read by the rules (`url`). `percent` is the percent-encoding of ASCII
letters, which no program writes: it is read by the model, too.
"""

from __future__ import annotations

import binascii
import re
import urllib.parse
from collections.abc import Sequence

import re2

from sidecar.normalization.codecs import Codec, decode_base64, readable_text

MAX_PERCENT_LEVELS = 4
_ASCII_LETTER = r"%(?:25){0,3}(?:4[1-9a-fA-F]|5[0-9aA]|6[1-9a-fA-F]|7[0-9aA])"
_PERCENT = rf"(?:%(?:25){{0,3}}[2-7][0-9a-fA-F]|[0-9A-Za-z_.~+-]){{0,9}}{_ASCII_LETTER}"
_FOREIGN_SIGNS = r"[!-*,\-.:-@\[-`{-~\t\x{80}-\x{10ffff}]"
_PIECE = r"[A-Za-z0-9+/]{1,24}"
_TURN = r"[A-Za-z0-9+/]{0,22}[a-z0-9][A-Z][A-Za-z0-9+/]{0,22}"
"""A piece with a capital after a small letter or a digit: base64 has many, addresses and most code have none."""
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
"""Not RE2, whose replacing is Python code: most candidates are program text, so this runs often."""
_UU_LINE = r"[!-`][ -`]{4,60}"
_UTF7_WORD = r"\+[A-Za-z0-9+/]{3,}-?"
_UTF7_FIRST = r"(?:A[A-Hw-z0-9+/]|B[A-P])[AEIMQUYcgkosw048]"
"""How a letter of ASCII, or a Greek or Cyrillic one, begins a run of UTF-7."""
_BACKSPACE = r"(?:[\x{8}\x{7f}\x{232b}\x{2408}]|\^H)"
_ERASABLE = r"[^\x{8}\x{7f}\x{232b}\x{2408}\n]"
_BACKSPACES = re2.compile(_BACKSPACE)


def _percent(encoded: str) -> str | None:
    for _ in range(MAX_PERCENT_LEVELS):
        encoded, previous = urllib.parse.unquote_plus(encoded, errors="replace"), encoded
        if encoded == previous:
            break
    return encoded


def _utf7(encoded: str) -> str | None:
    try:
        text = encoded.encode("ascii").decode("utf-7")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return None
    return readable_text(text.encode("utf-8", "replace"))


def _uuencode(encoded: str) -> str | None:
    decoded = bytearray()
    for line in encoded.splitlines():
        if line.startswith("begin "):
            continue
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            break
    return readable_text(bytes(decoded))


def _cut_base64(encoded: str) -> str | None:
    """Base64 with any signs in it, as lenient decoders read it."""
    return decode_base64(_NO_BASE64.sub("", encoded))


def _erased(encoded: str) -> str | None:
    """What a terminal shows: every backspace takes the character before it away; None if no letter goes."""
    first, *pieces = _BACKSPACES.split(encoded)
    shown, letters = [*first], 0
    for piece in pieces:
        letters += bool(shown) and shown.pop().isalpha()
        shown += piece
    text = "".join(shown)
    return text if letters and any(map(str.isalpha, text)) else None


CODECS: Sequence[Codec] = (
    Codec("percent", rf"(?:{_PERCENT}){{5,}}(?:%[2-7][0-9a-fA-F])*", _percent, rf"(?:{_ASCII_LETTER}){{3}}"),
    Codec(
        "utf7",
        rf"{_UTF7_WORD}(?:[ -~]{{0,12}}{_UTF7_WORD})*[.!?]?",
        _utf7,
        rf"\+{_UTF7_FIRST}[ADE][A-Za-z][A-Za-z0-9+/]|(?:\+{_UTF7_FIRST}-[ -~]{{0,20}}){{3}}",
    ),
    Codec(
        "uuencode",
        rf"begin [0-7]{{3}} [^\n]{{1,80}}\n(?:{_UU_LINE}\n?)+|(?m:^M[ -`]{{60}}\n)(?:{_UU_LINE}\n?)+",
        _uuencode,
        r"begin [0-7]{3} |(?m:^M[ -`]{60}$)",
    ),
    Codec(
        "cut",
        rf"(?:{_PIECE}{_FOREIGN_SIGNS}{{1,3}}){{4,}}{_PIECE}={{0,2}}",
        _cut_base64,
        rf"(?:{_PIECE}{_FOREIGN_SIGNS}{{1,3}}){{2}}{_TURN}{_FOREIGN_SIGNS}{{1,3}}(?:{_PIECE}{_FOREIGN_SIGNS}{{1,3}}){{2}}",
    ),
    Codec(
        "erased",
        rf"(?:{_ERASABLE}{{1,40}}{_BACKSPACE}{{1,40}})+{_ERASABLE}{{0,40}}",
        _erased,
        r"[\x{8}\x{7f}\x{232b}\x{2408}]|\^H\^H|(?:[a-z]\^H[a-z][a-z.,;!? ]{0,12}){3}",
    ),
)
