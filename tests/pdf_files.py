"""Writes small PDFs for tests: pages of text, compressed, in object streams, encrypted, or hostile."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from functools import cache

_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_PERMISSIONS = -44
_ID = bytes(range(16))


def text_page(text: str, *, colour: str = "0 g", place: str = "40 700") -> bytes:
    """The content of a page with one line of text."""
    return f"BT {colour} /F1 12 Tf {place} Td ({text}) Tj ET".encode()


def pdf(
    *contents: bytes, compressed: bool = True, catalog: str = "", page: str = "", more: Mapping[int, bytes] = {}
) -> bytes:
    """A PDF of pages with these contents. `catalog`, `page`: further entries; `more`: further objects, from 500 on."""
    return _with_table(_objects(contents, compressed, catalog, page) | dict(more))


def with_object_streams(*contents: bytes) -> bytes:
    """The same, with all that are no streams in one compressed object stream, and a compressed table."""
    objects = _objects(contents, True, "", "")
    packed = {number: body for number, body in objects.items() if b"stream" not in body}
    offsets, body = [], b""
    for number, value in packed.items():
        offsets.append(f"{number} {len(body)}")
        body += value + b"\n"
    head = " ".join(offsets).encode() + b"\n"
    whole = zlib.compress(head + body)
    container = max(objects) + 1
    fields = f"/Type /ObjStm /N {len(packed)} /First {len(head)} /Filter /FlateDecode /Length {len(whole)}"
    streams = {number: value for number, value in objects.items() if number not in packed}
    streams[container] = f"<< {fields} >>\nstream\n".encode() + whole + b"\nendstream"
    data, places = _written(streams)
    rows = [b"\x00" + bytes(4) + b"\x00"]
    for number in range(1, container + 2):
        if number in packed:
            rows.append(b"\x02" + container.to_bytes(4, "big") + bytes([list(packed).index(number)]))
        else:
            rows.append(b"\x01" + places.get(number, len(data)).to_bytes(4, "big") + b"\x00")
    table = zlib.compress(b"".join(rows))
    entries = f"/Type /XRef /Size {len(rows)} /W [1 4 1] /Root 1 0 R /Filter /FlateDecode /Length {len(table)}"
    start = len(data)
    data += f"{container + 1} 0 obj\n<< {entries} >>\nstream\n".encode() + table + b"\nendstream\nendobj\n"
    return data + f"startxref\n{start}\n%%EOF\n".encode()


def encrypted(text: str, password: str) -> bytes:
    """One page that opens with this password alone: RC4 with 40 bits, as of PDF 1.1."""
    user = (password.encode() + _PADDING)[:32]
    owner = _rc4(hashlib.md5(user, usedforsecurity=False).digest()[:5], user)
    seed = user + owner + _PERMISSIONS.to_bytes(4, "little", signed=True) + _ID
    key = hashlib.md5(seed, usedforsecurity=False).digest()[:5]
    objects = _objects((text_page(text),), False, "", "")
    number = max(objects)
    salted = key + number.to_bytes(3, "little") + bytes(2)
    content = _rc4(hashlib.md5(salted, usedforsecurity=False).digest()[:10], text_page(text))
    objects[number] = f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
    terms = f"/Filter /Standard /V 1 /R 2 /O <{owner.hex()}> /U <{_rc4(key, _PADDING).hex()}> /P {_PERMISSIONS}"
    objects[number + 1] = f"<< {terms} >>".encode()
    return _with_table(objects, f"/Encrypt {number + 1} 0 R /ID [<{_ID.hex()}> <{_ID.hex()}>]")


@cache
def bomb(size: int) -> bytes:
    """One page whose content is `size` bytes, compressed twice to some kilobytes.

    The pieces of the inner stream are the same bytes, since none refers to the one before it.
    """
    piece, packer, checksum = b"q Q " * 250_000, zlib.compressobj(9, wbits=-15), 1
    packed_piece = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(size // len(piece)):
        checksum = zlib.adler32(piece, checksum)
    inner = b"\x78\xda" + packed_piece * (size // len(piece)) + packer.flush() + checksum.to_bytes(4, "big")
    packed = zlib.compress(inner, 9)
    entries = f"/Filter [/FlateDecode /FlateDecode] /Length {len(packed)}"
    objects = _objects((b"",), False, "", "")
    objects[max(objects)] = f"<< {entries} >>\nstream\n".encode() + packed + b"\nendstream"
    return _with_table(objects)


def picture() -> dict[int, bytes]:
    """An object that is a picture of one pixel, numbered 500."""
    entries = "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1"
    return {500: f"<< {entries} >>\nstream\n".encode() + b"\x80\nendstream"}


def _objects(contents: tuple[bytes, ...], compressed: bool, catalog: str, page: str) -> dict[int, bytes]:
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(contents)))
    objects = {
        1: f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    }
    for index, content in enumerate(contents):
        resources = "<< /Font << /F1 3 0 R >> /XObject << /I1 500 0 R >> >>"
        box = "/MediaBox [0 0 595 842]"
        number = 4 + 2 * index
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R {box} /Resources {resources} /Contents {number + 1} 0 R {page} >>".encode()
        )
        body = zlib.compress(content) if compressed else content
        entries = f"{'/Filter /FlateDecode ' if compressed else ''}/Length {len(body)}"
        objects[number + 1] = f"<< {entries} >>\nstream\n".encode() + body + b"\nendstream"
    return objects


def _written(objects: Mapping[int, bytes]) -> tuple[bytes, dict[int, int]]:
    data, places = b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n", {}
    for number, body in objects.items():
        places[number] = len(data)
        data += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    return data, places


def _with_table(objects: Mapping[int, bytes], trailer: str = "") -> bytes:
    data, places = _written(objects)
    start, size = len(data), max(objects) + 1
    data += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        data += f"{number} 1\n{place:010} 00000 n \n".encode()
    return data + f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    output = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        output.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(output)
