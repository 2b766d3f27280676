"""Hostile requests: raw HTTP/1.1 bytes whose structure, framing or coding could cost a server more than their size.

A kind is a function of a random generator and a size in bytes, which bounds the body after decompression (and is only
roughly met). Every request closes its connection.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import brotli

from benchmarks.hostile.texts import ALPHANUMERICS, ATTACK, LETTERS, NEAR_MISS, SENTENCE, TEXTS, word

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


Body = Callable[[Random, int], bytes]
CHAT = "/v1/chat/completions"
JSON = "application/json"
FORM = "multipart/form-data; boundary=B"


def http(body: bytes, path: str = CHAT, *fields: str, kind: str = JSON, length: bool = True) -> bytes:
    """One POST request."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Type: {kind}"]
    head += [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join([*head, *fields, "", ""]).encode("latin-1") + body


def dumps(value: object) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def chat(content: object, **fields: object) -> bytes:
    """A chat with one user turn."""
    return dumps({"model": "m", "messages": [{"role": "user", "content": content}], **fields})


def fields_of(make: Callable[[Random], Any], item: int, wrap: Callable[[list[Any]], bytes]) -> Body:
    """A body with as many items of about `item` bytes as fit."""
    return lambda c, size: http(wrap([make(c) for _ in range(max(1, size // item))]))


def compressed(coding: str, compress: Callable[[bytes], bytes], content: bytes) -> Body:
    """A chat of one repeated content, compressed."""

    def body(chance: Random, size: int) -> bytes:
        text = b"%d " % chance.randrange(10**9) + content * (size // len(content))
        return http(compress(chat("@").replace(b"@", text)), CHAT, f"Content-Encoding: {coding}")

    return body


def chunks(body: bytes, size: int) -> bytes:
    """A body in chunks of `size` bytes."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def part(name: str, value: str) -> bytes:
    """A field of a form."""
    return f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def nested(opening: bytes, end: bytes, size: int, levels: int) -> bytes:
    """Containers `levels` deep, repeated side by side."""
    tower = opening * levels + b"1" + end * levels
    return b"[" + b",".join([tower] * max(1, size // (len(tower) + 1))) + b"]"


def turns(texts: Sequence[str]) -> bytes:
    """A conversation of these turns, by user and assistant in turn."""
    roles = ("user", "assistant")
    return dumps({"model": "m", "messages": [{"role": roles[n % 2], "content": t} for n, t in enumerate(texts)]})


def tool(chance: Random) -> dict[str, Any]:
    """A tool definition."""
    properties = {word(chance, LETTERS, 3, 9): {"type": "string", "description": SENTENCE} for _ in range(3)}
    parameters = {"type": "object", "properties": properties}
    function = {"name": word(chance, LETTERS, 3, 20), "description": NEAR_MISS, "parameters": parameters}
    return {"type": "function", "function": function}


def frames(messages: Sequence[bytes]) -> bytes:
    """Masked text frames, then a close frame."""
    sent = []
    for message in messages:
        length = bytes([0x80 | len(message)]) if len(message) < 126 else b"\xfe" + len(message).to_bytes(2, "big")
        sent.append(b"\x81" + length + b"\0\0\0\0" + message)
    return b"".join(sent) + b"\x88\x82\0\0\0\0\x03\xe8"


def websocket(chance: Random, size: int) -> bytes:
    """A websocket with many small events."""
    event = {"type": "conversation.item.create", "item": {"type": "message", "role": "user"}}
    parts = ({"type": "input_text", "text": word(chance, LETTERS, 3, 40)} for _ in range(max(1, size // 200)))
    messages = [dumps({**event, "item": {**event["item"], "content": [content]}}) for content in parts]  # type: ignore[dict-item]
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13"
    head = f"GET /v1/realtime?model=m HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}"
    return f"{head}\r\n\r\n".encode() + frames(messages)


def pipelined(chance: Random, size: int) -> bytes:
    """Many small requests in one connection."""
    small = http(chat(word(chance, LETTERS, 3, 9))).replace(b"Connection: close\r\n", b"")
    return small * max(1, size // len(small)) + http(chat("last"))


def rare(text: str, size: int) -> str:
    """A text repeated to `size` characters."""
    return (text * (size // len(text) + 1))[:size]


def many_headers(chance: Random, size: int) -> bytes:
    """As many header fields as a request may have."""
    fields = [f"X-{word(chance, LETTERS, 5, 5)}{n}: {word(chance, ALPHANUMERICS, 9, 9)}" for n in range(1_000)]
    return http(chat("hello"), CHAT, *fields[: size // 25])


BODIES: dict[str, Body] = {
    "deep arrays": lambda _, n: http(chat("x").replace(b'"m"', nested(b"[", b"]", n, 40))),
    "too deep arrays": lambda _, n: http(b"[" * n + b"]" * n),
    "deep objects": lambda _, n: http(b'{"metadata":' + nested(b'{"a":', b"}", n, 40) + b"}"),
    "many keys": lambda c, n: http(chat("x", metadata={word(c, LETTERS, 4, 12): "v" for _ in range(n // 16)})),
    "keys of words": lambda c, n: http(
        chat("x", extra={rare(word(c, SENTENCE, 40, 40), 80): 1 for _ in range(n // 90)})
    ),
    "many empty lists": lambda _, n: http(chat("x", extra=[[]] * (n // 4))),
    "many numbers": lambda c, n: http(chat("x", extra=[c.random() for _ in range(n // 20)])),
    "many short strings": fields_of(lambda c: word(c, LETTERS, 1, 3), 7, lambda v: chat("x", extra=v)),
    "many parts": fields_of(lambda c: {"type": "text", "text": word(c, LETTERS, 3, 9)}, 36, chat),
    "many images": lambda _, n: http(
        chat([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}] * (n // 70))
    ),
    "many tiny turns": fields_of(lambda c: word(c, LETTERS, 1, 3), 38, turns),
    "cut sentences": fields_of(lambda c: c.choice(ATTACK.split()), 42, turns),
    "many tools": fields_of(tool, 500, lambda v: chat("x", tools=v)),
    "enumerations": fields_of(
        lambda c: word(c, SENTENCE, 9, 30), 30, lambda v: chat("x", response_format={"schema": {"enum": v}})
    ),
    "tool results": lambda c, n: http(
        dumps(
            {
                "messages": [
                    {"role": "tool", "tool_call_id": f"{k}", "content": word(c, SENTENCE, 30, 60)}
                    for k in range(n // 90)
                ]
            }
        )
    ),
    "long system prompt": lambda c, n: http(
        dumps(
            {
                "messages": [
                    {"role": "system", "content": TEXTS["random words"](c, n // 2)},
                    {"role": "user", "content": rare(SENTENCE, n // 2)},
                ]
            }
        )
    ),
    "many inputs": lambda c, n: http(
        dumps({"model": "m", "input": [word(c, SENTENCE, 10, 60) for _ in range(n // 40)]}), "/v1/embeddings"
    ),
    "token ids": lambda c, n: http(
        dumps({"model": "m", "prompt": [c.randrange(99_999) for _ in range(n // 7)]}), "/v1/completions"
    ),
    "response items": lambda c, n: http(
        dumps(
            {
                "model": "m",
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": word(c, SENTENCE, 9, 30)}]}
                    for _ in range(n // 90)
                ],
            }
        ),
        "/v1/responses",
    ),
    "message blocks": lambda c, n: http(
        dumps(
            {
                "model": "m",
                "max_tokens": 9,
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": word(c, SENTENCE, 9, 30)} for _ in range(n // 50)],
                    }
                ],
            }
        ),
        "/v1/messages",
    ),
    "gzip of braces": compressed("gzip", gzip.compress, b"{"),
    "gzip of brackets": lambda _, n: http(
        gzip.compress(b"[" + b"[]," * (n // 3) + b"1]"), CHAT, "Content-Encoding: gzip"
    ),
    "gzip of sentences": compressed("gzip", gzip.compress, NEAR_MISS.encode()),
    "deflate of blanks": compressed("deflate", zlib.compress, b" "),
    "zstd of digits": compressed("zstd", zstd.compress, b"7"),
    "brotli of letters": compressed("br", brotli.compress, b"a"),
    "gzip cut off": lambda _, n: http(gzip.compress(chat("a" * n))[:-9], CHAT, "Content-Encoding: gzip"),
    "form fields": lambda c, n: http(
        b"".join(part(word(c, LETTERS, 4, 9), "v") for _ in range(n // 70)) + b"--B--\r\n",
        "/v1/images/edits",
        kind=FORM,
    ),
    "form boundaries": lambda _, n: http(
        part("prompt", "\r\n--A" * (n // 5)) + b"--B--\r\n", "/v1/images/edits", kind=FORM
    ),
    "tiny chunks": lambda c, n: http(
        chunks(chat(word(c, SENTENCE, n // 7, n // 7)), 1), CHAT, "Transfer-Encoding: chunked", length=False
    ),
    "invalid UTF-8": lambda _, n: http(chat("@").replace(b"@", b"\xc0\xaf\xff" * (n // 3))),
    "lone surrogates": lambda _, n: http(chat("@").replace(b"@", b"\\ud800" * (n // 6))),
    "surrogate pairs": lambda _, n: http(chat("@").replace(b"@", b"\\ud83d\\ude00" * (n // 12))),
    "escaped letters": lambda _, n: http(
        chat("@").replace(b"@", rare("".join(f"\\u{ord(x):04x}" for x in ATTACK), n // 6 * 6).encode())
    ),
    "escaped colons": lambda c, n: http(
        b'{"extra":{' + b",".join(b'"%d\\u003a":0' % c.randrange(10**6) for _ in range(n // 16)) + b"}}"
    ),
    "repeated names": lambda _, n: http(b'{"messages":[],' + b",".join([b'"a":1'] * (n // 6)) + b"}"),
    "long integers": lambda c, n: http(chat("x").replace(b'"m"', word(c, "123456789", n, n).encode())),
    "long model name": lambda c, n: http(chat("x").replace(b'"m"', dumps(word(c, ALPHANUMERICS, n, n)))),
    "long query": lambda c, n: http(chat("x"), f"{CHAT}?q={word(c, ALPHANUMERICS, min(n, 9_000), min(n, 9_000))}"),
    "many headers": many_headers,
    "one long header": lambda c, n: http(chat("x"), CHAT, f"X-Long: {word(c, ALPHANUMERICS, n, n)}"),
    "websocket events": websocket,
    "pipelined requests": pipelined,
}
"""Kinds of requests by name."""


def of_text(name: str) -> Body:
    """A chat with a hostile text of a kind, in UTF-8; its length in characters is smaller where they are larger."""

    def body(chance: Random, size: int) -> bytes:
        text = f"{chance.randrange(10**9)} {TEXTS[name](chance, size)}"
        return http(chat(text.encode()[:size].decode("utf-8", "ignore")))

    return body


KINDS: dict[str, Body] = {**{name: of_text(name) for name in TEXTS}, **BODIES}
"""All kinds by name."""
