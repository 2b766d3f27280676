"""Reads `multipart/form-data` in the one form that the official clients write; anything else is refused.

Parsers of this format differ more than those of any other (repeated boundaries, folded headers, transfer
encodings, text before and after the parts), and each difference is a place to hide text. So there is no
tolerance here: boundary, CRLF, two known headers a part, and nothing around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidecar.errors import BodyError

MOST_PARTS = 256
LONGEST_HEAD = 1024
_TYPE = re.compile(
    r'multipart/form-data\s*;\s*boundary=(?:"([\w\'()+,./:=?-]{1,70})"|([\w\'+.-]{1,70}))', re.ASCII | re.IGNORECASE
)
_QUOTED = r'"([^"\\\r\n]*)"'
_DISPOSITION = re.compile(
    rf"form-data; name={_QUOTED}(?:; filename={_QUOTED})?(?:; filename\*=(?:utf-8|UTF-8)''([\w!#$&+.^`|~%-]*))?"
)
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}(?: ?; ?[\w-]{1,32}=\"?[\w.+-]{1,64}\"?)*", re.ASCII)
_TEXT = re.compile(r"text/plain(?:;\s*charset=\"?utf-8\"?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form. `filename` is None for a field, a string (perhaps empty) for a file."""

    name: str
    data: bytes
    filename: str | None = None
    content_type: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the part is a field with text."""
        return self.filename is None and (self.content_type is None or bool(_TEXT.fullmatch(self.content_type)))


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
    return tuple(_part(block) for block in blocks)


def _boundary(content_type: str | None) -> bytes:
    found = _TYPE.fullmatch((content_type or "").strip())
    if not found:
        raise BodyError("encoding", "The Content-Type must be multipart/form-data with one boundary.", status=415)
    return (found[1] or found[2]).encode()


def _part(block: bytes) -> Part:
    head, end, data = block.partition(b"\r\n\r\n")
    if not head.startswith(b"\r\n") or not end or len(head) > LONGEST_HEAD:
        raise _malformed("has a part without proper headers")
    headers = _headers(head[2:])
    found = _DISPOSITION.fullmatch(headers.get("content-disposition", ""))
    if not found:
        raise _malformed("has a part without a plain Content-Disposition")
    content_type = headers.get("content-type")
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        raise _malformed("has a part without a plain Content-Type")
    name, filename, extended = found.groups()
    shown = None if filename is None and extended is None else " ".join(filter(None, (filename, extended)))
    return Part(name, data, shown, content_type)


def _headers(head: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in head.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        key = name.decode("latin-1").lower()
        if not colon or key not in {"content-disposition", "content-type"} or key in headers:
            raise _malformed("has a part with other headers than Content-Disposition and Content-Type")
        headers[key] = _utf8(value).strip(" ")
    return headers


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("has a part header that is not UTF-8") from None


def _malformed(said: str) -> BodyError:
    return BodyError("malformed", f"The form {said}.")
