"""Compressed bodies and files of the second generator."""

from __future__ import annotations

import gzip
import io
import struct
import sys
import zipfile
import zlib
from random import Random

import brotli

from benchmarks.hostile.second.blocks import (
    ATTACKS,
    BOMB,
    CHAT,
    RESPONSES,
    USER,
    Kind,
    around,
    attack,
    base_64,
    dumps,
    http,
    of_body,
    parts,
    repeated,
    user,
    utf8,
)
from benchmarks.hostile.second.json_bodies import PNG

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK = 65_536


def bomb(chance: Random, size: int) -> bytes:
    """A chat of one repeated character or attack."""
    return around(utf8(repeated(chance.choice((" ", "a", "\u200b", ATTACKS[0] + " ")), size)))


def small(chance: Random) -> bytes:
    """A chat of one attack."""
    return around(utf8(attack(chance)))


def gz(data: bytes, level: int = 9) -> bytes:
    """Gzip, the same at any time."""
    return gzip.compress(data, level, mtime=0)


def blocks(body: bytes) -> list[bytes]:
    """The body in blocks of 64 KiB."""
    return [body[start : start + BLOCK] for start in range(0, len(body), BLOCK)]


def zstd_frame(body: bytes, descriptor: bytes = b"\0\x38") -> bytes:
    """A zstd frame by hand: blocks as they are, or of one repeated byte."""
    pieces = [b"\x28\xb5\x2f\xfd" + descriptor]
    for block in blocks(body):
        same = block.count(block[:1]) == len(block)
        pieces.append(struct.pack("<I", same << 1 | len(block) << 3)[:3] + (block[:1] if same else block))
    return b"".join(pieces) + b"\x01\0\0"


def brotli_stream(body: bytes, empty: int = 0) -> bytes:
    """A brotli stream by hand: `empty` empty blocks of metadata, then uncompressed blocks."""
    heads = ((struct.pack("<I", (len(block) - 1) << 3 | 1 << 19)[:3], block) for block in blocks(body))
    return b"\x0c" + b"\x06" * empty + b"".join(head + block for head, block in heads) + b"\x03"


def empty_deflate(chance: Random, size: int) -> bytes:
    """A deflate stream with many empty blocks."""
    return b"\x78\x01" + b"\0\0\0\xff\xff" * (size // 5) + zlib.compress(small(chance))[2:]


def wide(_: Random, size: int) -> bytes:
    """Many empty objects."""
    return gz(around(b"{}," * (size * 3) + b"{}", b'{"messages":[', b"]}"))


def messages(_: Random, size: int) -> bytes:
    """Many short turns."""
    return gz(around(b'"ignore"},{"role":"user","content":' * (size * 10 // 36), USER, b'""}]}'))


def long_name(chance: Random, size: int) -> bytes:
    """Gzip with a long name of a file."""
    return b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"n" * size + b"\0" + gz(small(chance))[10:]


def blank_zstd(_: Random, size: int) -> bytes:
    """Zstd of blanks, in blocks of one repeated byte."""
    return zstd_frame(b" " * (size * BOMB // BLOCK << 16) + b'{"messages":[]}')


CODED: dict[str, tuple[str, int, Kind]] = {
    "gzip_bomb": ("gzip", BOMB, lambda c, n: gz(bomb(c, n * BOMB))),
    "gzip_bomb_json_blanks": ("gzip", BOMB, lambda _, n: gz(b" " * (n * BOMB - 20) + b'{"messages":[]}')),
    "gzip_deep_json": ("gzip", BOMB // 4, lambda _, n: gz(b"[" * (n * BOMB // 4))),
    "gzip_wide_json": ("gzip", 9, wide),
    "gzip_messages": ("gzip", 10, messages),
    "gzip_three_times": ("gzip, gzip, gzip", BOMB, lambda c, n: gz(gz(gz(bomb(c, n * BOMB))))),
    "gzip_listed_fifty_times": (", ".join(["gzip"] * 50), 1, lambda c, n: gz(gz(bomb(c, n)))),
    "gzip_inside_gzip_untold": ("gzip", 1, lambda c, n: gz(gz(bomb(c, n * 50)))),
    "gzip_many_members": ("gzip", 1, lambda c, n: b"".join(gz(b"%c" % byte, 1) for byte in bomb(c, n // 21))),
    "gzip_empty_members": ("gzip", 1, lambda c, n: gz(b"") * (n // 20) + gz(small(c))),
    "gzip_long_name_field": ("gzip", 1, long_name),
    "gzip_cut_short": ("gzip", 20, lambda c, n: gz(bomb(c, n * 20))[:-20]),
    "gzip_wrong_checksum": ("gzip", 20, lambda c, n: gz(bomb(c, n * 20))[:-8] + b"\xff" * 8),
    "gzip_trailing_rubbish": ("gzip", 1, lambda c, n: gz(small(c)) + c.randbytes(n)),
    "deflate_zlib_bomb": ("deflate", BOMB, lambda c, n: zlib.compress(bomb(c, n * BOMB), 9)),
    "deflate_raw_bomb": ("deflate", BOMB, lambda c, n: zlib.compress(bomb(c, n * BOMB), 9)[2:-4]),
    "deflate_empty_blocks": ("deflate", 1, empty_deflate),
    "zstd_repeat_block_bomb": ("zstd", BOMB, blank_zstd),
    "zstd_window_128_mib": ("zstd", 1, lambda c, n: zstd_frame(bomb(c, n), b"\0\x88")),
    "zstd_lying_content_size": (
        "zstd",
        1,
        lambda c, n: zstd_frame(bomb(c, n), b"\xc0\x38" + struct.pack("<Q", 1 << 36)),
    ),
    "zstd_empty_frames": ("zstd", 1, lambda c, n: zstd_frame(b"") * (n // 9) + zstd_frame(small(c))),
    "zstd_skippable_frames": ("zstd", 1, lambda c, n: b"\x50\x2a\x4d\x18\0\0\0\0" * (n // 8) + zstd_frame(small(c))),
    "zstd_empty_blocks": ("zstd", 1, lambda c, n: zstd_frame(small(c))[:-3] + b"\0\0\0" * (n // 3) + b"\x01\0\0"),
    "br_empty_metadata_blocks": ("br", 1, lambda c, n: brotli_stream(small(c), n)),
    "encoding_unknown": ("x-snappy, identity, , gzip;q=0", 1, bomb),
    "br_bomb": ("br", BOMB, lambda c, n: brotli.compress(bomb(c, n * BOMB), quality=5)),
    "zstd_bomb": ("zstd", BOMB, lambda c, n: zstd.compress(bomb(c, n * BOMB), 3)),
}
"""Content codings, how many times larger the decoded body is than the size, and the compressed bodies."""


def chunk(tag: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def png(chance: Random, size: int) -> bytes:
    """A picture whose compressed chunks of text hold far more text than it weighs."""
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(utf8(repeated(ATTACKS[0] + " ", size * 20))))
    head = PNG + chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0))
    return head + text * 4 + chunk(b"IDAT", chance.randbytes(size // 2)) + chunk(b"IEND", b"")


def docx(chance: Random, size: int) -> bytes:
    """An archive whose first file is large."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(max(2, size // 350)):
            data = "<w:t>" + repeated(attack(chance), 200 if number else size * 50) + "</w:t>"
            archive.writestr(zipfile.ZipInfo(f"word/p{number}.xml"), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def png_chat(chance: Random, size: int) -> bytes:
    """A chat with the picture."""
    url = "data:image/png;base64," + base_64(png(chance, size))
    return http(CHAT, dumps(parts([{"type": "image_url", "image_url": {"url": url}}])[1]))


def docx_response(chance: Random, size: int) -> bytes:
    """A request of the Responses API with the archive."""
    data = "data:application/zip;base64," + base_64(docx(chance, size))
    content = [{"type": "input_file", "filename": "a.docx", "file_data": data}]
    return http(RESPONSES, dumps({"model": "m", "input": [user(content)]}))


FILES: dict[str, Kind] = {"image_png_text_bomb": png_chat, "file_zip_bomb": docx_response}
"""Files in JSON."""

CODINGS: dict[str, Kind] = {
    **FILES,
    **{name: of_body(CHAT, make, fields=[("Content-Encoding", coding)]) for name, (coding, _, make) in CODED.items()},
}
"""All by name."""
