"""Chunks, headers and paths of the second generator."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from benchmarks.hostile.second.blocks import (
    CHAT,
    JSON,
    SCAN,
    Headers,
    Kind,
    around,
    attack,
    characters,
    code_points,
    dumps,
    http,
    joined,
    prose,
    utf8,
    word,
)
from benchmarks.hostile.second.codings import bomb, gz

MAX_HEAD, MAX_LINE, MAX_VALUE = 24_000, 7_500, 7_000
"""Bytes of all header fields, of a line, and of the values of some."""
TRAILER = b"".join(b"X-T%d: %s\r\n" % (number, b"t" * 50) for number in range(60))


def chunked(step: int, size_line: bytes = b"%x\r\n", trailer: bytes = b"", *, compress: bool = False) -> Kind:
    """A chat in chunks of `step` bytes."""

    def kind(chance: Random, size: int) -> bytes:
        body = gz(bomb(chance, size * 20)) if compress else around(utf8(joined(lambda: attack(chance), size - 60)))
        pieces = [body[start : start + step] for start in range(0, len(body), step)]
        content = b"".join(size_line % len(piece) + piece + b"\r\n" for piece in pieces)
        fields = [("Content-Encoding", "gzip")] if compress else []
        return http(CHAT, content + b"0\r\n" + trailer + b"\r\n", fields, chunked=True)

    return kind


def headed(
    fields: Callable[[Random, int], Headers] = lambda *_: [],
    path: str = SCAN,
    kind: str = JSON,
    method: str = "POST",
) -> Kind:
    """Unusual headers or paths before an ordinary body."""

    def make(chance: Random, size: int) -> bytes:
        body = dumps({"prompt": prose(chance, size - 20)})
        return http(path, body, fields(chance, min(size, MAX_HEAD)), kind, method)

    return make


def cookies(chance: Random, size: int) -> Headers:
    """Many cookies with escapes."""
    return [("Cookie", joined(lambda: f'{word(chance, 3)}="{word(chance, 3)}\\073"', min(size, MAX_VALUE), "; "))]


HEADERS: dict[str, Kind] = {
    "chunked_single_bytes": chunked(1),
    "chunked_leading_zeros": chunked(7, b"%08x\r\n"),
    "chunked_extensions": chunked(16, b'%x;name="' + b"e" * 60 + b'"\r\n'),
    "chunked_trailers": chunked(4_096, trailer=TRAILER),
    "chunked_gzip_single_bytes": chunked(1, compress=True),
    "headers_many": headed(lambda c, n: [(f"X-{word(c, 5)}-{k}", word(c, 8)) for k in range(n // 24)]),
    "header_long_line": headed(lambda c, n: [("X-Long", word(c, min(n, MAX_LINE)))]),
    "header_cookies": headed(cookies),
    "header_non_ascii": headed(lambda c, n: [("X-Bytes", characters(c, code_points((0xA1, 0xFF)), min(n, MAX_VALUE)))]),
    "content_type_parameters": headed(kind=JSON + "".join(f'; p{n}="\\""' for n in range(400))),
    "query_many_parameters": headed(path=f"{SCAN}?" + "&".join(f"p{n % 97}=%25%32%35" for n in range(450))),
    "path_dots_and_percents": headed(path="/v1/" + "%2e%2e/" * 500 + "./" * 1_000 + "chat/completions"),
    "get_with_body": headed(path="/health", method="GET"),
    "expect_continue": headed(lambda *_: [("Expect", "100-continue")]),
}
"""All by name."""
