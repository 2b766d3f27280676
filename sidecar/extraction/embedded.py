"""Decodes text embedded in strings: `data:` URLs, base64, JSON. Bytes, not labels, tell text from media."""

from __future__ import annotations

import binascii
import encodings.aliases
import pkgutil
import re
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote, unquote_to_bytes

from sidecar.extraction.json_body import JsonValue
from sidecar.util import json

MAX_JSON_LENGTH = 1024 * 1024
_HEADER = re.compile(
    r"[A-Za-z0-9!#$&^_.+/-]*(?:;[A-Za-z0-9_-]+=[\"']?[\w.+%:-]*[\"']?)*(?:;base64)?", re.IGNORECASE | re.ASCII
)
_TEXT_TYPES = ("text/", "+json", "+xml", "/json", "/xml", "javascript", "yaml", "csv")
_MAGIC = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*"),  # pictures, and WAV and WebP
    *(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"fLaC", b"OggS", b"\x1aE\xdf\xa3"),  # sound, video
    *(b"%PDF", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b"),  # documents and archives
)
_PDF_HEADER, _PDF_OBJECT = 1024, re.compile(rb"\d\s+\d+\s+obj")
"""Where readers look for the header, and what a PDF has at least one of."""
_PICTURE = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBPVP8", re.DOTALL)
_CHARSET = re.compile(r";\s*charset\*?=[\"']?([\w.:%-]{2,60})", re.IGNORECASE)
_ALIASES = {"ucs_2": "utf_16", "x_gbk": "gbk", "cn_gb": "gb2312", "x_mac_cyrillic": "mac_cyrillic"}
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"})
"""Python's text encodings that no reader knows as a charset."""
_CHARSETS = (
    frozenset({*encodings.aliases.aliases, *(module.name for module in pkgutil.iter_modules(encodings.__path__))})
    - _NO_CHARSETS
)
"""Names that may be looked up: for any other one Python would search for a module, each time, and remember it."""
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]")
_PRINTABLE = re.compile(rb"[\x20-\x7e\x80-\xf4]{20,}")
_WORDS = re.compile(rb"(?<![A-Za-z\x80-\xf4])(?:[A-Za-z\x80-\xf4]{2,}+[ ,.]{1,2}){3}[A-Za-z\x80-\xf4]{2}")
"""Starts at a word alone and gives nothing back: linear in long runs of letters."""
MAX_PASSAGES, MAX_METADATA = 64, 16_384
"""Passages of media that are read, and their characters together."""
_CONTROLS = bytes({*range(32), 127} - {9, 10, 12, 13})
_MIN_CHARACTERS_PER_ODD, _MIN_CHARACTERS_PER_ODD_BEHIND_MAGIC, _MAGIC_LENGTH = 8, 30, 16
"""A file is text if at most one in this many characters is undecodable; in compressed data every second one is."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Decoded content of a string: `text`, or None for media, of which `metadata` holds the readable passages.

    `file`: the bytes if they are a PDF, which may be text as well, or a picture of a kind that can be read.
    """

    text: str | None
    metadata: str = ""
    file: bytes = b""


def data_url(value: str) -> Embedded | None:
    """Decode a `data:` URL; None for any other string and for a malformed URL."""
    header, comma, body = value[5:].partition(",")
    if value[:5].lower() != "data:" or not comma or len(header) > 200 or not _HEADER.fullmatch(header):
        return None
    media = header.partition(";")[0].lower()
    is_base64 = header.lower().endswith(";base64")
    data = _from_base64(body) if is_base64 else unquote_to_bytes(body)
    if data is None:
        return _lenient_text(body)
    if _is_unread(data, header):
        return _embedded(None, data)
    declared = not media or any(kind in media for kind in _TEXT_TYPES)
    return _embedded(_in_charset(data, header) or _as_text(data, declared=declared), data)


def _embedded(text: str | None, data: bytes) -> Embedded:
    return Embedded(text, "" if text is not None else passages(data), file_of(data))


def file_of(data: bytes) -> bytes:
    """The data if it is a PDF or a picture, whatever its declared type; else nothing."""
    return data if is_picture(data) or is_pdf(data) else b""


def is_pdf(data: bytes) -> bool:
    """Whether readers take the data for a PDF, even one that is text throughout."""
    return b"%PDF-" in data[:_PDF_HEADER] and _PDF_OBJECT.search(data) is not None


def is_picture(data: bytes) -> bool:
    """Whether the data is a picture of a kind that can be read: PNG, JPEG, GIF or WebP."""
    return _PICTURE.match(data) is not None


def passages(data: bytes) -> str:
    """The readable passages of media: comments, titles and other metadata, and text that is not compressed."""
    runs = (run for run in _PRINTABLE.findall(data) if _WORDS.search(run))
    return "\n".join(run.decode("utf-8", errors="replace") for run in islice(runs, MAX_PASSAGES))[:MAX_METADATA]


def _lenient_text(body: str) -> Embedded | None:
    """Text in base64 with foreign characters, which browsers and many libraries skip or decode before."""
    data = _leniently(body)
    text = None if data is None else _mostly_text(data)
    return Embedded(text, file=file_of(data)) if data is not None and text else None


def lenient_media(value: str) -> Embedded | None:
    """Media in such base64, bare or in a `data:` URL. Text with a few chosen letters in front is taken for it, too."""
    data = _leniently(value.partition(",")[2] if value[:5].lower() == "data:" else value)
    return _embedded(None, data) if data is not None and _is_media(data) else None


def _leniently(body: str) -> bytes | None:
    return _from_base64(_NO_BASE64.sub("", unquote(body)).rstrip("="))


def _in_charset(data: bytes, header: str) -> str | None:
    """Text in the declared charset, before what a reader sees that ignores it; None without such a charset."""
    codec = _codec(_declared_charset(header))
    if codec is None:
        return None
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    ignoring = _as_text(data, declared=True)
    return text if ignoring is None or text == ignoring else f"{text}\n{ignoring}"


def _is_unread(data: bytes, header: str) -> bool:
    """Whether a reader may know a charset that we do not, in which these bytes are another text."""
    name = _declared_charset(header)
    return bool(name) and not data.isascii() and _codec(name) is None


def _declared_charset(header: str) -> str:
    """The charset of a type; of several different ones a name that none has, since readers choose differently."""
    names = {unquote_to_bytes(name).decode("ascii", "replace").lower() for name in _CHARSET.findall(f";{header}")}
    return names.pop() if len(names) == 1 else ", ".join(sorted(names))


def _codec(name: str) -> str | None:
    """The charset under its name in Python; None for one that is not known."""
    folded = re.sub(r"[^a-z0-9]+", "_", name)
    folded = _ALIASES.get(folded, folded)
    if folded not in _CHARSETS:
        return None
    try:
        b"\0\0\0\0".decode(folded, "replace")  # refuses what is no charset, such as base64
    except (LookupError, ValueError):
        return None
    return folded


def base64_value(value: str) -> Embedded | None:
    """Decode a bare base64 string; None if it is not base64, or its bytes are neither text nor start like media.

    Words without spaces are valid base64 as well and decode to noise; they have to be scanned undecoded.
    """
    data = _from_base64(value) if len(value) >= 16 else None
    if data is None:
        return None
    text = _as_text(data, declared=False)
    return _embedded(text, data) if text is not None or _is_media(data) else None


def _is_media(data: bytes) -> bool:
    """Whether the bytes start like media, or are a PDF to a reader that looks further."""
    return data.startswith(_MAGIC) or data[4:8] == b"ftyp" or is_pdf(data)


def text_of(data: bytes, content_type: str = "") -> str | None:
    """Decode a file as text, in the charset of its type if it names one; None if it is not text."""
    if _is_unread(data, content_type):
        return None
    return _in_charset(data, content_type) or _as_text(data, declared=False)


def _from_base64(value: str) -> bytes | None:
    """Strict decoding that accepts line breaks, both alphabets and missing padding; None for anything else."""
    try:
        plain = value.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"), b"\r\n")
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None


def _as_text(data: bytes, *, declared: bool) -> str | None:
    """Decode bytes as text. Bytes declared as text are always decoded, if need be as Latin-1."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _legacy_text(data) if declared else _mostly_text(data)
    return text if declared or "\x00" not in text else _mostly_text(data)


def _mostly_text(data: bytes) -> str | None:
    """Decode UTF-16, or UTF-8 with a few invalid bytes, which other readers would skip."""
    if data.startswith(_MAGIC) and not _is_text_behind_magic(data):
        return None
    if (wide := _utf16_text(data)) is not None:
        return wide
    text = data.decode("utf-8", errors="replace")
    odd = text.count("\ufffd") + len(data) - len(data.translate(None, _CONTROLS))
    return text if odd * _MIN_CHARACTERS_PER_ODD <= len(text) else None


def _is_text_behind_magic(data: bytes) -> bool:
    """Whether what begins like media goes on as text: hardly a byte that text does not have."""
    rest = data[_MAGIC_LENGTH:]
    odd = len(rest) - len(rest.translate(None, _CONTROLS)) + rest.decode("utf-8", errors="replace").count("\ufffd")
    return len(rest) >= _MIN_CHARACTERS_PER_ODD_BEHIND_MAGIC and odd * _MIN_CHARACTERS_PER_ODD_BEHIND_MAGIC <= len(rest)


def _utf16_text(data: bytes) -> str | None:
    """Decode UTF-16, recognized by its byte order mark or by the zero bytes of Latin letters."""
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


def _legacy_text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("latin-1")


def json_value(value: str) -> JsonValue:
    """Parse a string that holds a JSON object or array with escapes; None for any other string.

    Without a backslash every leaf appears verbatim in the string, so parsing it would find nothing new.
    """
    if "\\" not in value or len(value) > MAX_JSON_LENGTH or value.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        document: JsonValue = json.loads(value)
    except json.DecodeError:
        return None
    return document
