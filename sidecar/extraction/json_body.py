"""Parses a JSON body, or raises a `BodyError` that describes the problem without quoting the text.

Stricter than any single parser, so that no upstream can read something other than what was scanned: UTF-8
only, at most one content coding, no duplicate names (orjson silently keeps the last), no name that
a case-folding decoder takes for a known one, no integer outside 64 bits, bounded depth and size.

Duplicate names are detected without a second parse. Invariant: the serialized value has exactly one colon per
member plus those inside strings; so if the body holds as many colons, and none is escaped, no member was dropped.
Only a body that fails this check is parsed again by the exact, slower parser.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from typing import TypeAlias

from sidecar.errors import BodyError
from sidecar.extraction.dialect_fields import SHARED, DialectFields
from sidecar.extraction.field_table import KNOWN_NAMES
from sidecar.util import codings
from sidecar.util import json as fast_json

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_DEFLATES = frozenset({"gzip", "deflate"})
_VISITED_TYPES = frozenset({dict, list, float})
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_MIN_LARGE_FLOAT = float(2**63)
_MAX_DEFLATE_RATIO = 1032
"""Maximum expansion of one byte of deflate."""
_COPIES = 4
_COMMA_BYTES, _BRACKET_BYTES = 350, 150


def check_type(content_type: str | None) -> None:
    """Raise `BodyError` `encoding` (415) for another media type than JSON, or another charset than UTF-8."""
    media, *parameters = (content_type or "").split(";")
    media = media.strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise BodyError("encoding", "The body must be JSON with Content-Type: application/json.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower().startswith("charset") and value.strip().strip('"').lower() not in {"utf-8", "utf8"}:
            raise BodyError("encoding", "The body must be UTF-8; its Content-Type names another charset.", status=415)


def inflate(raw: bytes, content_encoding: str, *, limit: int) -> bytes:
    """Undo one content coding (`codings.SUPPORTED`), decompressing at most about `limit` bytes.

    Raises `BodyError`: `encoding` (415) for an unsupported coding, `malformed` (400) for a damaged body, `oversize`
    (413) for a result beyond the limit.
    """
    coding = content_encoding.strip().lower()
    stream = codings.decoder(coding) if coding in codings.SUPPORTED else None
    if stream is None:
        detail = f"Content-Encoding must be absent or one of {', '.join(codings.SUPPORTED)}, once."
        raise BodyError("encoding", detail, status=415)
    chunks, size = [], 0
    try:
        chunks.append(stream.decompress(raw, limit + 1))
        while stream.pending and (size := sum(map(len, chunks))) <= limit:
            chunks.append(stream.decompress(b"", limit + 1 - size))
    except codings.CodingError:
        raise BodyError("malformed", "The body is not what its Content-Encoding says.") from None
    plain = b"".join(chunks)
    if len(plain) > limit:
        raise BodyError("oversize", f"The body is larger than {limit} bytes (limits.body_bytes).", status=413)
    if not stream.finished:
        raise BodyError("malformed", "The compressed body is cut off before its end.")
    return plain


def max_inflated_size(raw: bytes, coding: str, limit: int) -> int:
    """Upper bound of the bytes that `inflate` produces from a body of this coding."""
    return min(_MAX_DEFLATE_RATIO * len(raw), limit) if coding.strip().lower() in _DEFLATES else limit


def footprint(body: bytes) -> int:
    """Upper bound, as measured, of the memory in bytes that a body, its values and its texts take during parsing.

    A character takes one byte in Python, or up to four in a text with characters beyond ASCII. A value takes more than
    its bytes: ten million of `[],[],` took a gigabyte.
    """
    width = 1 if body.isascii() and (b"\\" not in body or b"\\u" not in body) else 4
    values = _COMMA_BYTES * body.count(b",") + _BRACKET_BYTES * (body.count(b"[") + body.count(b"{"))
    return _COPIES * width * len(body) + values


def parse(raw: bytes, *, depth: int, client_named: bool = False, fields: DialectFields = SHARED) -> JsonValue:
    """The unambiguous value of these bytes, nested at most `depth` deep, in an API with these `fields`.

    `client_named`: no name in it is one of the chat APIs, so none can be mistaken for one.

    Raises `BodyError` with kind `malformed` (400) for invalid JSON, or JSON that parsers read differently.
    """
    buffer_size = fast_json.memory_for(raw)
    try:
        value: JsonValue = fast_json.loads(raw, buffer_size)
    except fast_json.DecodeError as error:
        raise BodyError("malformed", f"The body is not valid JSON: {error}.") from None
    if _check_structure(value, depth, fields, client_named=client_named) or not _is_lossless(value, raw, buffer_size):
        _parse_strictly(raw)
    return value


def check(value: JsonValue, *, depth: int) -> None:
    """Raise `BodyError` for a part of a parsed body with names that can be mistaken for the API's."""
    _check_structure(value, depth, SHARED)


def _check_structure(value: JsonValue, depth: int, fields: DialectFields, *, client_named: bool = False) -> bool:
    """Check every container, level by level: its depth, and names that can be mistaken for known ones.

    True if a number is so large that it may have been an integer beyond 64 bits. Plain loops, because
    this is the main cost apart from the parser itself.
    """
    top: list[JsonValue] = [[value]]  # wrapped in a list so that the value itself is the first level
    named, free = ([], top) if client_named else (top, [])
    large = False
    for _ in range(depth + 1):
        free_below = _client_children(free) if free else []
        named, free = _named_children(named, free_below, fields), free_below
        for node in chain(named, free):
            if type(node) is float and abs(node) >= _MIN_LARGE_FLOAT:
                large = True
        if not named and not free:
            return large
    if any(type(node) is not float for node in chain(named, free)):
        raise BodyError("malformed", f"The body is nested deeper than {depth} levels (limits.depth).")
    return large


def _named_children(nodes: list[JsonValue], client_children: list[JsonValue], fields: DialectFields) -> list[JsonValue]:
    """The children of nodes whose names the API defines; those named by the client go to `client_children`."""
    children: list[JsonValue] = []
    for node in nodes:
        if type(node) is dict:
            if not fields.known.issuperset(node):
                _refuse_confusable(node, fields)
            for name, child in node.items():
                if type(child) in _VISITED_TYPES:
                    (client_children if fields.is_client_named(name, child) else children).append(child)
        elif type(node) is list:
            for child in node:
                if type(child) in _VISITED_TYPES:
                    children.append(child)  # noqa: PERF401 - measured: a comprehension is a function call here
    return children


def _client_children(nodes: list[JsonValue]) -> list[JsonValue]:
    children: list[JsonValue] = []
    for node in nodes:
        for child in node.values() if type(node) is dict else node if type(node) is list else ():
            if type(child) in _VISITED_TYPES:
                children.append(child)  # noqa: PERF401 - as above
    return children


def _refuse_confusable(node: dict[str, JsonValue], fields: DialectFields) -> None:
    for name in node:
        if name not in fields.known and (known_name := fields.confusable_with(name)):
            raise BodyError("malformed", f"A name in the body differs from {known_name!r} but can be read as it.")


def _is_lossless(value: JsonValue, raw: bytes, buffer_size: int) -> bool:
    try:
        written = fast_json.dumps(value, buffer_size)
    except fast_json.EncodeError:  # nested deeper than orjson serializes
        return False
    return written == raw or (b"\\u003" not in raw and raw.count(b":") == written.count(b":"))


def _parse_strictly(raw: bytes) -> None:
    """Parse again and check every name and number. Assumes valid JSON in UTF-8, as accepted by orjson."""
    json.loads(raw.decode(), object_pairs_hook=_check_names, parse_int=_check_integer)


def _check_names(pairs: list[tuple[str, object]]) -> None:
    names = dict(pairs)
    if len(names) != len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        description = f"the name {repeated!r}" if repeated in KNOWN_NAMES else "a name"
        raise BodyError("malformed", f"An object in the body gives {description} twice.")


def _check_integer(digits: str) -> None:
    if len(digits) > 20 or not _MIN_INTEGER <= int(digits) <= _MAX_INTEGER:
        raise BodyError("malformed", "An integer in the body does not fit into 64 bits.")
