"""Reads `multipart/form-data` (RFC 7578) as the clients of many languages write it, where it has one reading.

Parsers of this format differ more than those of any other (repeated boundaries and parameters, folded headers,
transfer encodings, text before and after the parts), and each difference is a place to hide text. So what has one
meaning to every server is read: other headers of a part, which the RFC says are to be ignored, parameters in any
order, with or without quotes. What has two is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.errors import BodyError

MOST_PARTS = 256
LONGEST_HEAD = 2048
CHARSET = "_charset_"
"""The field that states in which charset the others are (RFC 7578, 4.6)."""
MOST_HEADERS = 16
_TOKEN = r"[\w!#$%&'*+.^`|~-]+"
_QUOTED = r'"[^"\\\r\n]*"'
"""Without backslashes: some servers take them for escapes, some do not."""
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*({_TOKEN})=({_QUOTED}|{_TOKEN})", re.ASCII)
_BOUNDARY = re.compile(r"[\w'()+,./:=?-]{1,70}", re.ASCII)
_EXTENDED = re.compile(r"utf-8''([\w!#$&+.^`|~%-]*)", re.ASCII | re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}(?: ?; ?[\w-]{1,32}=\"?[\w.+-]{1,64}\"?)*", re.ASCII)
_TEXT = re.compile(r"text/plain(?:;\s*charset=\"?(?:utf-8|us-ascii)\"?)?", re.IGNORECASE)
_WESTERN = re.compile(r"text/plain;\s*charset=\"?(?:iso-8859-\d\d?|latin-?1|windows-125\d)\"?", re.IGNORECASE)
"""Charsets in which ASCII is ASCII. Not every server minds them: beyond ASCII the text has two readings."""
_FIELD = re.compile(rb"([!#$%&'*+.^`|~\w-]+):[ \t]*([^\r\n]*)")
_NAMES = frozenset({"name", "filename", "filename*"})
_AS_IT_IS = frozenset({"7bit", "8bit", "binary"})
"""Transfer encodings that change nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form. `filename` is None for a field, a string (perhaps empty) for a file."""

    name: str
    data: bytes
    filename: str | None = None
    content_type: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the part is a field with text that every server reads alike."""
        if self.filename is not None:
            return False
        if self.content_type is None or _TEXT.fullmatch(self.content_type):
            return True
        return self.data.isascii() and bool(_WESTERN.fullmatch(self.content_type))


def is_form(content_type: str | None) -> bool:
    """Whether a Content-Type says that the body is a form."""
    return (content_type or "").partition(";")[0].strip().lower() == "multipart/form-data"


def parse_form(raw: bytes, *, content_type: str | None, content_encoding: str | None = None) -> tuple[Part, ...]:
    """The parts of a form. Raises `BodyError`: `encoding` (415) or `malformed` (400)."""
    boundary = _boundary(content_type)
    if content_encoding is not None:
        raise BodyError("encoding", "A form must come without Content-Encoding.", status=415)
    opening, *blocks = (b"\r\n" + raw).split(b"\r\n--" + boundary)
    if opening or len(blocks) < 2:
        raise _malformed("does not begin with its boundary")
    if blocks.pop() not in {b"--", b"--\r\n"}:
        raise _malformed("does not end with its boundary")
    if len(blocks) > MOST_PARTS:
        raise _malformed(f"has more than {MOST_PARTS} parts")
    parts = tuple(_part(block) for block in blocks)
    if any(part.name == CHARSET and part.data.strip().lower() != b"utf-8" for part in parts):
        raise _malformed("names another charset than UTF-8")
    return parts


def _boundary(content_type: str | None) -> bytes:
    """The boundary; beside it the type may name UTF-8, which forms are read in anyway."""
    try:
        kind, given = _parameters(content_type or "")
    except ValueError:
        kind, given = "", {}
    found = given.pop("boundary", "")
    if kind != "multipart/form-data" or given.pop("charset", "utf-8").lower() != "utf-8" or given:
        found = ""
    if not _BOUNDARY.fullmatch(found):
        said = "The Content-Type must be multipart/form-data with one boundary, in UTF-8 if it names a charset."
        raise BodyError("encoding", said, status=415)
    return found.encode()


def _part(block: bytes) -> Part:
    head, end, data = block.partition(b"\r\n\r\n")
    if not head.startswith(b"\r\n") or not end or len(head) > LONGEST_HEAD:
        raise _malformed("has a part without proper headers")
    headers = _headers(head[2:])
    if headers.get("content-transfer-encoding", "binary").lower() not in _AS_IT_IS:
        raise _malformed("has a part with a transfer encoding")
    if headers.get("content-length", str(len(data))) != str(len(data)):
        raise _malformed("has a part that states another length than it has")
    content_type = headers.get("content-type")
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        raise _malformed("has a part without a plain Content-Type")
    name, filename = _names(headers.get("content-disposition", ""))
    return Part(name, data, filename, content_type)


def _names(disposition: str) -> tuple[str, str | None]:
    """The name of a part, and that of its file, which may be given twice: plainly and in UTF-8."""
    try:
        kind, given = _parameters(disposition)
    except ValueError:
        kind, given = "", {}
    extended = _EXTENDED.fullmatch(given.get("filename*", "utf-8''"))
    if kind != "form-data" or extended is None or "name" not in given or not given.keys() <= _NAMES:
        raise _malformed("has a part without a plain Content-Disposition")
    shown = " ".join(filter(None, (given.get("filename"), extended[1])))
    return given["name"], shown if given.keys() & {"filename", "filename*"} else None


def _parameters(field: str) -> tuple[str, dict[str, str]]:
    """What a field says, and its parameters. Raises `ValueError` if one is given twice or is not well formed."""
    kind, semicolon, rest = field.strip(" \t").partition(";")
    given: dict[str, str] = {}
    for name, value in _each(semicolon + rest):
        if name in given:
            raise ValueError(name)
        given[name] = value
    return kind.rstrip(" \t").lower(), given


def _each(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _PARAMETER.match(text, at)
        if found is None:
            raise ValueError(text[at:])
        yield found[1].lower(), found[2].strip('"')
        at = found.end()


def _headers(head: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    lines = head.split(b"\r\n")
    for line in lines:
        found = _FIELD.fullmatch(line)
        key = found[1].decode("ascii").lower() if found else ""
        if found is None or key in headers or len(lines) > MOST_HEADERS:
            raise _malformed("has a part with headers that are folded, repeated, too many or none")
        headers[key] = _utf8(found[2]).rstrip(" \t")
    return headers


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("has a part header that is not UTF-8") from None


def _malformed(said: str) -> BodyError:
    return BodyError("malformed", f"The form {said}.")
