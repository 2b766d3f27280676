"""Text inside text: `data:` URLs, base64, JSON in a string. Tells media from text by the bytes, not by the label."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from sidecar.extraction.json_body import JsonValue
from sidecar.util import json

LONGEST_JSON = 1024 * 1024
_HEADER = re.compile(r"[A-Za-z0-9!#$&^_.+/-]*(?:;[A-Za-z0-9_-]+=[\w.+%-]*)*(?:;base64)?", re.IGNORECASE | re.ASCII)
_TEXT_TYPES = ("text/", "+json", "+xml", "/json", "/xml", "javascript", "yaml", "csv")
_MAGIC = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*"),  # pictures, and WAV and WebP
    *(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"fLaC", b"OggS", b"\x1aE\xdf\xa3"),  # sound, video
    *(b"%PDF", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b"),  # documents and archives
)
_CONTROLS = bytes({*range(32), 127} - {9, 10, 12, 13})
_ODD = 8
"""Of so many characters one may be none, in a file that is read as text; of compressed bytes every second is."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a string holds beside itself: `text` if it decodes to text, else it is media."""

    text: str | None


def data_url(value: str) -> Embedded | None:
    """What a `data:` URL holds; None for a string that is none, or none that can be read."""
    header, comma, body = value[5:].partition(",")
    if value[:5].lower() != "data:" or not comma or len(header) > 200 or not _HEADER.fullmatch(header):
        return None
    media = header.partition(";")[0].lower()
    data = _from_base64(body) if header.lower().endswith(";base64") else unquote_to_bytes(body)
    declared = not media or any(kind in media for kind in _TEXT_TYPES)
    return None if data is None else Embedded(_as_text(data, declared=declared))


def base64_value(value: str) -> Embedded | None:
    """What a bare base64 string holds; None if it is no base64, or neither text nor media by its first bytes.

    Words without blanks are base64, too, and decode to noise: they are to be scanned as they stand.
    """
    data = _from_base64(value) if len(value) >= 16 else None
    if data is None:
        return None
    text = _as_text(data, declared=False)
    return Embedded(text) if text is not None or data.startswith(_MAGIC) or data[4:8] == b"ftyp" else None


def text_of(data: bytes) -> str | None:
    """The text that a file's bytes are; None for anything else."""
    return _as_text(data, declared=False)


def _from_base64(value: str) -> bytes | None:
    """Strict, but for line ends and the two alphabets: what a reader would have to guess at is no base64."""
    try:
        plain = value.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"), b"\r\n")
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None


def _as_text(data: bytes, *, declared: bool) -> str | None:
    """The text that these bytes are. What is declared as text is read as some text in any case."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _in_old_encoding(data) if declared else _nearly_text(data)
    return text if declared or "\x00" not in text else _nearly_text(data)


def _nearly_text(data: bytes) -> str | None:
    """Text with a few bytes that are none, which whoever reads it leaves out; or text in two bytes a letter."""
    if data.startswith(_MAGIC):
        return None
    if (wide := _in_two_bytes(data)) is not None:
        return wide
    text = data.decode("utf-8", errors="replace")
    odd = text.count("\ufffd") + len(data) - len(data.translate(None, _CONTROLS))
    return text if odd * _ODD <= len(text) else None


def _in_two_bytes(data: bytes) -> str | None:
    """UTF-16 by its mark, or by the empty halves of Latin letters."""
    low, high = data[0:64:2], data[1:64:2]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        coding = "utf-16"
    elif len(data) > 8 and (any(low), any(high)) in {(True, False), (False, True)}:
        coding = "utf-16-le" if any(low) else "utf-16-be"
    else:
        return None
    try:
        return data.decode(coding)
    except UnicodeDecodeError:
        return None


def _in_old_encoding(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("latin-1")


def json_value(value: str) -> JsonValue:
    """The object or array that a string holds as JSON with escapes; None for any other string.

    Without a backslash every leaf stands in the string as it is read, so there is nothing to unfold.
    """
    if "\\" not in value or len(value) > LONGEST_JSON or value.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        found: JsonValue = json.loads(value)
    except json.DecodeError:
        return None
    return found
