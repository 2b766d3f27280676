"""JSON through orjson, which uses the memory it is given without a look: where there is none it ends the process.

So whether there is enough is asked before; if not, `MemoryError` is raised, which costs one request its answer.
How much it takes was measured with the densest values (`[],[],`) and with one long text.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import orjson

DecodeError = orjson.JSONDecodeError
EncodeError = orjson.JSONEncodeError
SORTED, INDENTED = orjson.OPT_SORT_KEYS, orjson.OPT_INDENT_2

LEAST = 32 * 1024
"""For any value, and enough for what is known to be small."""
MUCH = 4 * 1024 * 1024
"""For what is bounded, but not small."""
_MAPPED = 128 * 1024
"""From here on memory is asked of the system by the page, and costs nothing until it is used."""
_BYTE, _COMMA, _BRACKET = 20, 350, 150


def room_for(raw: bytes) -> int:
    """The most bytes that reading `raw` takes beside it, and writing what was read."""
    brackets = raw.count(b"[") + raw.count(b"{")
    return LEAST + _BYTE * len(raw) + _COMMA * raw.count(b",") + _BRACKET * brackets


def loads(raw: bytes | str, room: int = 0) -> Any:
    """The value. `room`: what `room_for` said, if it was asked. Raises `DecodeError`, or `MemoryError`."""
    ensure(room or room_for(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")))
    try:
        return orjson.loads(raw)
    except DecodeError as error:
        if "memory" in error.msg:  # of the one kind that orjson notices
            raise MemoryError from None
        raise


def dumps(
    value: object, room: int = LEAST, *, default: Callable[[object], object] | None = None, option: int | None = None
) -> bytes:
    """The bytes. `room`: what writing takes, if that may be much. Raises `EncodeError`, or `MemoryError`."""
    ensure(room)
    return orjson.dumps(value, default, option)


def ensure(size: int) -> None:
    """Raise `MemoryError` unless so many bytes could be had now."""
    if size < _MAPPED:
        bytearray(size)
        return
    try:
        mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError from None
