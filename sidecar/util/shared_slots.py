"""Shared memory for worker processes: a slot for each, written by its owner and read by all.

Create it before the fork. A slot has two halves: the owner writes the one that is not in use and then switches over
with one byte, so that an owner killed in the middle of a write leaves the previous content. A checksum tells a reader
that the content was replaced while it was copied.
"""

from __future__ import annotations

import mmap
import struct
import zlib

HALF_BYTES = 512 * 1024
"""Most bytes of a content, its head included. Memory that was never written takes none."""
READ_ATTEMPTS = 10
_HEAD = struct.Struct("<II")  # length and checksum of the content


class SharedSlots:
    """`count` slots, numbered from 0; each may have one writer at a time."""

    def __init__(self, count: int, half_bytes: int = HALF_BYTES) -> None:
        self.count, self._half_bytes = count, half_bytes
        self._in_use = mmap.mmap(-1, count)
        self._halves = mmap.mmap(-1, 2 * count * half_bytes)

    def write(self, number: int, content: bytes) -> None:
        """Replace the content of a slot. Raises `ValueError` if it does not fit."""
        if _HEAD.size + len(content) > self._half_bytes:
            raise ValueError(f"{len(content)} bytes do not fit into a slot")
        half = 1 - self._in_use[number]
        start = self._start(number, half)
        head = _HEAD.pack(len(content), zlib.crc32(content))
        self._halves[start : start + _HEAD.size + len(content)] = head + content
        self._in_use[number] = half

    def read(self, number: int) -> bytes:
        """The latest content of a slot; empty if there is none."""
        for _ in range(READ_ATTEMPTS):
            start = self._start(number, self._in_use[number])
            length, checksum = _HEAD.unpack(self._halves[start : start + _HEAD.size])
            content = self._halves[start + _HEAD.size : start + min(_HEAD.size + length, self._half_bytes)]
            if zlib.crc32(content) == checksum:
                return content
        return b""

    def _start(self, number: int, half: int) -> int:
        return (2 * number + half) * self._half_bytes
