"""JSON through orjson, guarded against running out of memory.

orjson does not check its allocations: a failed one ends the process. So the memory is probed first, and `MemoryError`
is raised if it is missing, which costs only the one request. The estimates were measured with the densest values
(`[],[],`) and with one long text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import orjson

DecodeError = orjson.JSONDecodeError
EncodeError = orjson.JSONEncodeError
SORTED, INDENTED = orjson.OPT_SORT_KEYS, orjson.OPT_INDENT_2

SMALL = 32 * 1024
"""Bytes to probe for a value that is known to be small; the base cost of any value."""
LARGE = 4 * 1024 * 1024
"""Bytes to probe for a value that is bounded but not small."""
_MMAP_THRESHOLD = 128 * 1024
"""From this size on memory is probed with mmap, which costs nothing until it is used."""
_PER_BYTE, _PER_COMMA, _PER_BRACKET = 20, 350, 150


def memory_for(raw: bytes) -> int:
    """Upper bound of the bytes needed beside `raw` to parse it, or to serialize the result."""
    brackets = raw.count(b"[") + raw.count(b"{")
    return SMALL + _PER_BYTE * len(raw) + _PER_COMMA * raw.count(b",") + _PER_BRACKET * brackets


def loads(raw: bytes | str, memory: int = 0) -> Any:
    """Parse. `memory`: the result of `memory_for`, if already computed. Raises `DecodeError` or `MemoryError`."""
    ensure_memory(memory or memory_for(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")))
    try:
        return orjson.loads(raw)
    except DecodeError as error:
        if "memory" in error.msg:  # the one allocation failure that orjson reports
            raise MemoryError from None
        raise


def loads_leniently(raw: bytes) -> Any:
    """Parse as clients do: NaN and lone surrogates pass. Raises `ValueError` or `MemoryError`."""
    try:
        return loads(raw)
    except DecodeError:
        try:
            return json.loads(raw)
        except RecursionError:
            raise ValueError("nested too deep") from None


def embedded(text: str) -> Any:
    """The object, list or text that a text holds as JSON, read leniently; else the text itself."""
    if text.lstrip()[:1] in {"{", "[", '"'}:
        with suppress(ValueError):
            return loads_leniently(text.encode("utf-8", "surrogatepass"))
    return text


def encodable(text: str) -> str:
    """A text without lone surrogates, which JSON can hold and UTF-8 (so RE2) cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def dumps(
    value: object, memory: int = SMALL, *, default: Callable[[object], object] | None = None, option: int | None = None
) -> bytes:
    """Serialize. `memory`: bytes that serializing takes, for large values. Raises `EncodeError` or `MemoryError`."""
    ensure_memory(memory)
    return orjson.dumps(value, default, option)


def ensure_memory(size: int) -> None:
    """Raise `MemoryError` unless `size` bytes can be allocated now."""
    if size < _MMAP_THRESHOLD:
        bytearray(size)
        return
    try:
        mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError from None
