"""Bytes in, one JSON value out, or a `BodyError` that says what and where without quoting the text.

Stricter than any one parser, so that no upstream can read something else than what was scanned: UTF-8
only, one content coding at most, no duplicate names (orjson keeps the last in silence), no name that
a case-folding decoder takes for a known one, no integer outside 64 bits, bounded depth and size.

That no name was given twice is seen without reading names: the value is written back, which says it
once, and if the body holds as many colons as that, nothing was lost (every member has one colon, and
those inside strings are the same in both, unless escaped). Only a body that fails this is read a second
time, by the exact and slower reader.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from typing import TypeAlias

from sidecar.errors import BodyError
from sidecar.extraction.field_table import KNOWN, is_free, mistakable
from sidecar.util import codings
from sidecar.util import json as jsons

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_DEFLATES = frozenset({"gzip", "deflate"})
_DEEPER = frozenset({dict, list, float})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_LARGE = float(2**63)
_RATIO = 1032
"""What one byte of deflate can become at most."""
_COPIES = 4
_COMMA_BYTES, _BRACKET_BYTES = 350, 150


def decode(raw: bytes, *, content_type: str | None, content_encoding: str | None, limit: int) -> bytes:
    """The JSON bytes of a body of at most `limit` bytes after inflating.

    Raises `BodyError`: `encoding` (415) for another media type, charset or coding than ours,
    `malformed` (400) for a damaged one, `oversize` (413).
    """
    _check_type(content_type)
    return inflate(raw, content_encoding, limit=limit)


def _check_type(content_type: str | None) -> None:
    media, *parameters = (content_type or "").split(";")
    media = media.strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise BodyError("encoding", "The body must be JSON with Content-Type: application/json.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower().startswith("charset") and value.strip().strip('"').lower() not in {"utf-8", "utf8"}:
            raise BodyError("encoding", "The body must be UTF-8; its Content-Type names another charset.", status=415)


def inflate(raw: bytes, content_encoding: str | None, *, limit: int) -> bytes:
    """Undo one content coding (`codings.KNOWN`), reading about `limit` bytes out of it at most."""
    if content_encoding is None:
        return _bounded(raw, limit)
    coding = content_encoding.strip().lower()
    stream = codings.decoder(coding) if coding in codings.SUPPORTED else None
    if stream is None:
        said = f"Content-Encoding must be absent or one of {', '.join(codings.SUPPORTED)}, once."
        raise BodyError("encoding", said, status=415)
    pieces, size = [], 0
    try:
        pieces.append(stream.decompress(raw, limit + 1))
        while stream.pending and (size := sum(map(len, pieces))) <= limit:
            pieces.append(stream.decompress(b"", limit + 1 - size))
    except codings.CodingError:
        raise BodyError("malformed", "The body is not what its Content-Encoding says.") from None
    plain = _bounded(b"".join(pieces), limit)
    if not stream.finished:
        raise BodyError("malformed", "The compressed body is cut off before its end.")
    return plain


def most_inflated(raw: bytes, coding: str, limit: int) -> int:
    """How many bytes `inflate` may make of a body of this coding."""
    return min(_RATIO * len(raw), limit) if coding.strip().lower() in _DEFLATES else limit


def footprint(body: bytes) -> int:
    """Bytes of memory that a plain body, its values and the texts in it take at most while it is read, as measured.

    A character takes one byte in Python, or up to four in a text that holds one beyond ASCII. A value takes more than
    its bytes: ten million of `[],[],` took a gigabyte.
    """
    width = 1 if body.isascii() and (b"\\" not in body or b"\\u" not in body) else 4
    values = _COMMA_BYTES * body.count(b",") + _BRACKET_BYTES * (body.count(b"[") + body.count(b"{"))
    return _COPIES * width * len(body) + values


def _bounded(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise BodyError("oversize", f"The body is larger than {limit} bytes (limits.body_bytes).", status=413)
    return body


def parse(raw: bytes, *, depth: int) -> JsonValue:
    """The one value that these bytes can mean, nested at most `depth` deep.

    Raises `BodyError` with kind `malformed` (400) for whatever is no JSON, or not the same JSON to every reader.
    """
    room = jsons.memory_for(raw)
    try:
        value: JsonValue = jsons.loads(raw, room)
    except jsons.DecodeError as error:
        raise BodyError("malformed", f"The body is not valid JSON: {error}.") from None
    if _survey(value, depth) or not _nothing_lost(value, raw, room):
        _read_exactly(raw)
    return value


def check(value: JsonValue, *, depth: int) -> None:
    """Refuse a part of a parsed body whose names, read as the API's, can be mistaken for known ones."""
    _survey(value, depth)


def _survey(value: JsonValue, depth: int) -> bool:
    """Look at every container, level by level: its depth, and names that can be mistaken for known ones.

    True if a number is so large that it may have been an integer beyond 64 bits. Plain loops, because
    this is what reading costs beside the parser itself.
    """
    named: list[JsonValue] = [[value]]  # in a list, so that the value itself is the first level
    free: list[JsonValue] = []
    large = False
    for _ in range(depth + 1):
        free_below = _below_free(free)
        named, free = _below_named(named, free_below), free_below
        large = large or any(type(node) is float and abs(node) >= _LARGE for node in chain(named, free))
        if not named and not free:
            return large
    if any(type(node) is not float for node in chain(named, free)):
        raise BodyError("malformed", f"The body is nested deeper than {depth} levels (limits.depth).")
    return large


def _below_named(nodes: list[JsonValue], free_below: list[JsonValue]) -> list[JsonValue]:
    """What lies below nodes whose names come from the API; what the client names goes to `free_below`."""
    below: list[JsonValue] = []
    for node in nodes:
        if type(node) is dict:
            if not KNOWN.issuperset(node):
                _refuse_mistakable(node)
            for name, child in node.items():
                if type(child) in _DEEPER:
                    (free_below if is_free(name, child) else below).append(child)
        elif type(node) is list:
            for child in node:
                if type(child) in _DEEPER:
                    below.append(child)  # noqa: PERF401 - measured: a comprehension is a function call here
    return below


def _below_free(nodes: list[JsonValue]) -> list[JsonValue]:
    below: list[JsonValue] = []
    for node in nodes:
        for child in node.values() if type(node) is dict else node if type(node) is list else ():
            if type(child) in _DEEPER:
                below.append(child)  # noqa: PERF401 - as above
    return below


def _refuse_mistakable(node: dict[str, JsonValue]) -> None:
    for name in node:
        if name not in KNOWN and (meant := mistakable(name)):
            raise BodyError("malformed", f"A name in the body differs from {meant!r} but can be read as it.")


def _nothing_lost(value: JsonValue, raw: bytes, room: int) -> bool:
    try:
        written = jsons.dumps(value, room)
    except jsons.EncodeError:  # nested deeper than orjson writes
        return False
    return written == raw or (b"\\u003" not in raw and raw.count(b":") == written.count(b":"))


def _read_exactly(raw: bytes) -> None:
    """Read again with every name and number in view. Knows from orjson that the bytes are JSON in UTF-8."""
    json.loads(raw.decode(), object_pairs_hook=_check_names, parse_int=_check_integer)


def _check_names(pairs: list[tuple[str, object]]) -> None:
    names = dict(pairs)
    if len(names) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        said = f"the name {twice!r}" if twice in KNOWN else "a name"
        raise BodyError("malformed", f"An object in the body gives {said} twice.")


def _check_integer(digits: str) -> None:
    if len(digits) > 20 or not _SMALLEST <= int(digits) <= _LARGEST:
        raise BodyError("malformed", "An integer in the body does not fit into 64 bits.")
