"""Parses `multipart/form-data` (RFC 7578) as clients of many languages write it, if it is unambiguous.

Parsers of this format differ more than those of any other (repeated boundaries and parameters, folded headers,
transfer encodings, text before and after the parts), and each difference is a way to hide text. So only input that
every server reads alike is accepted: further headers of a part, which the RFC says to ignore, and parameters in any
order, with or without quotes. Anything ambiguous is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.errors import BodyError

MAX_PARTS = 256
MAX_HEAD_BYTES = 2048
CHARSET = "_charset_"
"""The field that declares the charset of the other fields (RFC 7578, 4.6)."""
MAX_HEADERS = 16
_TOKEN = r"[\w!#$%&'*+.^`|~-]+"
_QUOTED = r'"[^"\\\r\n]*"'
"""Without backslashes, which only some servers treat as escapes."""
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*({_TOKEN})=({_QUOTED}|{_TOKEN})", re.ASCII)
_BOUNDARY = re.compile(r"[\w'()+,./:=?-]{1,70}", re.ASCII)
_EXTENDED = re.compile(r"utf-8''([\w!#$&+.^`|~%-]*)", re.ASCII | re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}(?: ?; ?[\w-]{1,32}=\"?[\w.+-]{1,64}\"?)*", re.ASCII)
_TEXT = re.compile(r"text/plain(?:;\s*charset=\"?(?:utf-8|us-ascii)\"?)?", re.IGNORECASE)
_ASCII_SUPERSET = re.compile(r"text/plain;\s*charset=\"?(?:iso-8859-\d\d?|latin-?1|windows-125\d)\"?", re.IGNORECASE)
"""Charsets that extend ASCII. Some servers ignore them, so text beyond ASCII is ambiguous."""
_FIELD = re.compile(rb"([!#$%&'*+.^`|~\w-]+):[ \t]*([^\r\n]*)")
_NAMES = frozenset({"name", "filename", "filename*"})
_IDENTITY_ENCODINGS = frozenset({"7bit", "8bit", "binary"})
"""Transfer encodings that leave the data unchanged."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form. `filename` is None for a field, a string (possibly empty) for a file."""

    name: str
    data: bytes
    filename: str | None = None
    content_type: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the part is a text field that every server decodes alike."""
        if self.filename is not None:
            return False
        if self.content_type is None or _TEXT.fullmatch(self.content_type):
            return True
        return self.data.isascii() and bool(_ASCII_SUPERSET.fullmatch(self.content_type))


def is_form(content_type: str | None) -> bool:
    """Whether a Content-Type is that of a form."""
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
    if len(blocks) > MAX_PARTS:
        raise _malformed(f"has more than {MAX_PARTS} parts")
    parts = tuple(_part(block) for block in blocks)
    if any(part.name == CHARSET and part.data.strip().lower() != b"utf-8" for part in parts):
        raise _malformed("names another charset than UTF-8")
    return parts


def _boundary(content_type: str | None) -> bytes:
    """The boundary. The only other parameter allowed is the charset UTF-8, which forms are decoded as anyway."""
    try:
        kind, parameters = _parameters(content_type or "")
    except ValueError:
        kind, parameters = "", {}
    boundary = parameters.pop("boundary", "")
    if kind != "multipart/form-data" or parameters.pop("charset", "utf-8").lower() != "utf-8" or parameters:
        boundary = ""
    if not _BOUNDARY.fullmatch(boundary):
        detail = "The Content-Type must be multipart/form-data with one boundary, in UTF-8 if it names a charset."
        raise BodyError("encoding", detail, status=415)
    return boundary.encode()


def _part(block: bytes) -> Part:
    head, end, data = block.partition(b"\r\n\r\n")
    if not head.startswith(b"\r\n") or not end or len(head) > MAX_HEAD_BYTES:
        raise _malformed("has a part without proper headers")
    headers = _headers(head[2:])
    if headers.get("content-transfer-encoding", "binary").lower() not in _IDENTITY_ENCODINGS:
        raise _malformed("has a part with a transfer encoding")
    if headers.get("content-length", str(len(data))) != str(len(data)):
        raise _malformed("has a part that states another length than it has")
    content_type = headers.get("content-type")
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        raise _malformed("has a part without a plain Content-Type")
    name, filename = _names(headers.get("content-disposition", ""))
    return Part(name, data, filename, content_type)


def _names(disposition: str) -> tuple[str, str | None]:
    """The name of a part and the name of its file, which may be present twice: plain and in UTF-8."""
    try:
        kind, parameters = _parameters(disposition)
    except ValueError:
        kind, parameters = "", {}
    extended = _EXTENDED.fullmatch(parameters.get("filename*", "utf-8''"))
    if kind != "form-data" or extended is None or "name" not in parameters or not parameters.keys() <= _NAMES:
        raise _malformed("has a part without a plain Content-Disposition")
    filenames = " ".join(filter(None, (parameters.get("filename"), extended[1])))
    return parameters["name"], filenames if parameters.keys() & {"filename", "filename*"} else None


def _parameters(field: str) -> tuple[str, dict[str, str]]:
    """The value of a header field and its parameters. Raises `ValueError` for a repeated or malformed parameter."""
    kind, semicolon, remainder = field.strip(" \t").partition(";")
    parameters: dict[str, str] = {}
    for name, value in _iter_parameters(semicolon + remainder):
        if name in parameters:
            raise ValueError(name)
        parameters[name] = value
    return kind.rstrip(" \t").lower(), parameters


def _iter_parameters(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _PARAMETER.match(text, position)
        if match is None:
            raise ValueError(text[position:])
        yield match[1].lower(), match[2].strip('"')
        position = match.end()


def _headers(head: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    lines = head.split(b"\r\n")
    for line in lines:
        match = _FIELD.fullmatch(line)
        key = match[1].decode("ascii").lower() if match else ""
        if match is None or key in headers or len(lines) > MAX_HEADERS:
            raise _malformed("has a part with headers that are folded, repeated, too many or none")
        headers[key] = _utf8(match[2]).rstrip(" \t")
    return headers


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("has a part header that is not UTF-8") from None


def _malformed(problem: str) -> BodyError:
    return BodyError("malformed", f"The form {problem}.")
