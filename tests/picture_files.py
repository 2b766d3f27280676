"""Draws small pictures with one line of text for tests, and writes hostile ones."""

from __future__ import annotations

import zlib
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pypdfium2
from pdf_files import pdf, text_page

SAMPLES = Path(__file__).parent / "data" / "pictures"
"""Pictures that say "The EVIL report", drawn by Pillow, in formats that are long to write."""


@cache
def drawn(text: str, scale: float = 2) -> np.ndarray:
    """A line of text in black on white: grey values, height by width."""
    page = pypdfium2.PdfDocument(pdf(text_page(text)))[0]
    return np.array(page.render(scale=scale, grayscale=True).to_numpy()[int(100 * scale) : int(180 * scale)])


def png(text: str, *chunks: bytes, scale: float = 2, alpha: bool = False) -> bytes:
    """A PNG of this text. `chunks`: further ones before the pixels; `alpha`: with transparency, all of it opaque."""
    pixels = drawn(text, scale)
    height, width = pixels.shape
    rows = np.stack([pixels, np.full_like(pixels, 255)], axis=2).reshape(height, -1) if alpha else pixels
    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return _png(_ihdr(width, height, 8, 4 if alpha else 0), *chunks, chunk(b"IDAT", packed))


@cache
def bomb(side: int = 30_000) -> bytes:
    """A PNG of so many pixels in a square, black or white, all of it in some kilobytes."""
    row, packer = bytes(1 + side // 8), zlib.compressobj(9)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return _png(_ihdr(side, side, 1, 0), chunk(b"IDAT", packed))


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def gif(*texts: str, transparent: bool = False) -> bytes:
    """A GIF with these texts as its frames, not compressed."""
    frames = [drawn(text) for text in texts]
    height, width = frames[0].shape
    sizes = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    colours = bytes(value for grey in range(128) for value in (2 * grey,) * 3)
    control = b"\x21\xf9\x04" + bytes([transparent]) + b"\0\0\x05\0"
    images = (control + b"\x2c\0\0\0\0" + sizes + b"\0\x07" + _blocks(frame // 2) for frame in frames)
    return b"GIF89a" + sizes + b"\xf6\0\0" + colours + b"".join(images) + b";"


def webp_container(flags: int) -> bytes:
    """The sample in the extended form of a WebP, which has these flags."""
    inner = (SAMPLES / "evil.webp").read_bytes()[12:]
    head = bytes([flags, 0, 0, 0]) + (419).to_bytes(3, "little") + (79).to_bytes(3, "little")
    body = b"WEBPVP8X" + (10).to_bytes(4, "little") + head + inner
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def turned_jpeg(orientation: int, order: str = "big") -> bytes:
    """The sample with this orientation of Exif, in this order of bytes."""
    jpeg = (SAMPLES / "evil.jpg").read_bytes()
    mark = b"MM\0*\0\0\0\x08\0\x01" if order == "big" else b"II*\0\x08\0\0\0\x01\0"
    fields = ((0x0112, 2), (3, 2), (1, 4), (orientation, 2))
    entry = b"".join(value.to_bytes(size, order) for value, size in fields)  # type: ignore[arg-type]
    exif = b"Exif\0\0" + mark + entry + bytes(6)
    return jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:]


def _png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def _ihdr(width: int, height: int, depth: int, colours: int) -> bytes:
    sizes = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return chunk(b"IHDR", sizes + bytes([depth, colours, 0, 0, 0]))


def _blocks(pixels: np.ndarray) -> bytes:
    """Codes of eight bits, cleared so often that they never become longer, in blocks of 255 bytes."""
    values = pixels.astype(np.uint8).ravel()
    codes = b"\x80" + b"\x80".join(values[start : start + 100].tobytes() for start in range(0, values.size, 100))
    codes += b"\x81"
    edges = [*range(0, len(codes), 255), len(codes)]
    return b"".join(bytes([end - start]) + codes[start:end] for start, end in pairwise(edges)) + b"\0"
