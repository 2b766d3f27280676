"""The text in the pixels of a picture, read in a process of its own (`sandbox`): PNG, JPEG, WebP and GIF.

Headers are read before anything is decoded, so that the size is bounded. Of several frames the first one is read. The
engine shows transparent pixels as they are stored and does not turn a picture as its orientation says, which viewers
do; so the text of such pictures is not all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faster_paddle import OcrEngine

_engine = OcrEngine(model_size="tiny", threads=1)
_TURNED = re.compile(rb"\x01\x12\0\x03\0\0\0\x01\0[\x02-\x08]|\x12\x01\x03\0\x01\0\0\0[\x02-\x08]")
"""The orientation of Exif, if it is not upright, in both orders of bytes."""
_FRAME_OF_JPEG = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_ALPHA_OF_PNG = frozenset({4, 6})


@dataclass(frozen=True, slots=True)
class Header:
    """Width and height in pixels; `plain`: with one frame and without transparency."""

    width: int
    height: int
    plain: bool


def read(data: bytes, pixels: int, characters: int) -> tuple[str, bool]:
    """The text of a picture in one line, and whether that is all of it.

    Raises `ValueError` or `IndexError` for more pixels, another format or a damaged header; the engine's errors are its
    own.
    """
    header = header_of(data)
    if header.width * header.height > pixels:
        raise ValueError("too many pixels")
    text = " ".join(_engine.ocr(data)["text"].split())
    return text[:characters], header.plain and not _TURNED.search(data) and len(text) <= characters


def header_of(data: bytes) -> Header:
    """The header of a picture. Raises `ValueError` or `IndexError` if there is none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return _png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _gif(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    raise ValueError("not a picture that is read")


def _png(data: bytes) -> Header:
    before_pixels = data[: data.index(b"IDAT")]
    is_plain = data[25] not in _ALPHA_OF_PNG and b"tRNS" not in before_pixels and b"acTL" not in before_pixels
    return Header(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"), is_plain)


def _jpeg(data: bytes) -> Header:
    """Its first frame header, behind segments with their lengths."""
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker in _FRAME_OF_JPEG:
            sizes = data[place + 5 : place + 9]
            return Header(int.from_bytes(sizes[2:], "big"), int.from_bytes(sizes[:2], "big"), True)
        # A marker may have filling bytes before it.
        place += 1 if marker == 0xFF else 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    raise ValueError("a JPEG without a frame")


def _webp(data: bytes) -> Header:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[start : start + 3], "little") for start in (24, 27))
        return Header(width, height, not data[20] & 0x12)  # the bits of animation and transparency
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return Header(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), not bits >> 28 & 1)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(data[start : start + 2], "little") & 0x3FFF for start in (26, 28))
        return Header(width, height, True)
    raise ValueError("a WebP of an unknown kind")


def _gif(data: bytes) -> Header:
    """Its screen, or the first frame if that is larger."""
    place, frames, is_plain = 13 + _colours(data[10]), 0, True
    width, height = (int.from_bytes(data[start : start + 2], "little") for start in (6, 8))
    while data[place : place + 1] not in {b";", b""}:
        if data[place] == 0x2C:
            frames += 1
            width = max(width, int.from_bytes(data[place + 5 : place + 7], "little"))
            height = max(height, int.from_bytes(data[place + 7 : place + 9], "little"))
            place = _behind_blocks(data, place + 11 + _colours(data[place + 9]))
        elif data[place] == 0x21:
            is_plain = is_plain and not (data[place + 1] == 0xF9 and data[place + 3] & 1)
            place = _behind_blocks(data, place + 2)
        else:
            raise ValueError("a damaged GIF")
    if not frames:
        raise ValueError("a GIF without a frame")
    return Header(width, height, is_plain and frames == 1)


def _colours(flags: int) -> int:
    """Bytes of the table of colours."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _behind_blocks(data: bytes, place: int) -> int:
    """The place behind a chain of blocks, each with its length in front, which one of length 0 ends."""
    while data[place]:
        place += 1 + data[place]
    return place + 1
