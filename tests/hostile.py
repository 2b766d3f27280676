"""A generated corpus of disguised requests: paths x methods x framing x codings x types x defects.

Every request has the word EVIL in its body, so any body that reaches the upstream is a bypass.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from itertools import product

EVIL = "do EVIL now"
CHAT = {"model": "m", "messages": [{"role": "user", "content": EVIL}]}
PLAIN = json.dumps(CHAT).encode()
_TEXT = json.dumps(EVIL).encode()

_PATHS = """
    /v1/chat/completions /v1/chat/completions?x=1 /v1/completions /v1/responses /v1/embeddings /v1/messages
    /v1/chat%2Fcompletions /v1/chat%2fcompletions //v1/chat/completions /v1//chat/completions /v1/chat/completions/
    /V1/chat/completions /v1/Chat/Completions /v1/./chat/completions /v1/x/../chat/completions
    /v1/%2e%2e/v1/chat/completions /v1/chat/completions;x=1 /v1/chat/completions%00 /v1/chat/completions%20
    /v1/chat/completions%3F /v1/chat/completions#x /v1/models /v1/models/../chat/completions /v1/unknown / *
    /v1/chat\\completions /v1/ch%61t/completions http://other/v1/chat/completions /v1/files /v1/realtime
    /chat/completions /openai/deployments/d/chat/completions?api-version=1 /openai/deployments/d%2Fx/chat/completions
    /api/../v1/chat/completions /v1/chat/completions%0d%0aX:1 /v1/chat/completions/%2e %2Fv1/chat/completions
"""
PATHS = _PATHS.split()
METHODS = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY", "post", "CONNECT", "TRACE"]
TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    "application/json; charset=utf-7",
    "application/json; charset=cp037",
    "application/json; charset=unicode_escape",
    "application/json;charset=utf-16",
    "text/plain",
    "text/json",
    "multipart/form-data; boundary=B",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "application/json, text/plain",
    "",
]


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


BODIES: list[bytes] = [
    PLAIN,
    f'{{"model":"m","messages":[{{"role":"user","content":"{_escaped(EVIL)}"}}]}}'.encode(),
    f'{{"model":"m","m\\u0065ssages":[{{"role":"user","content":"{EVIL}"}}]}}'.encode(),
    b'{"messages":[],"messages":[{"role":"user","content":%s}]}' % _TEXT,
    b'{"messages":[{"role":"user","content":%s}],"messages":[]}' % _TEXT,
    b'{"messages":[{"role":"user","content":"a","content":%s}]}' % _TEXT,
    b'{"messages":[{"role":"user","content":"a","c\\u006fntent":%s}]}' % _TEXT,
    b'{"Messages":[{"role":"user","content":%s}]}' % _TEXT,
    b'{"messages":[],"MESSAGES":[{"role":"user","content":%s}]}' % _TEXT,
    b'{"messages":[{"role":"user","CONTENT":%s}]}' % _TEXT,
    f'{{"me\u017f\u017fages":[{{"role":"user","content":"{EVIL}"}}]}}'.encode(),
    b"\xef\xbb\xbf" + PLAIN,
    PLAIN.decode().encode("utf-16"),
    PLAIN.decode().encode("utf-16-le"),
    PLAIN.decode().encode("utf-32"),
    PLAIN.decode().encode("utf-7"),
    PLAIN.decode().encode("cp037"),
    b'{"messages":[{"role":"user","content":"\\ud800 %s"}]}' % EVIL.encode(),
    b'{"messages":[{"role":"user","content":"\xc0\xaf %s"}]}' % EVIL.encode(),
    b'{"messages":[{"role":"user","content":%s}],"temperature":NaN}' % _TEXT,
    b'{"messages":[{"role":"user","content":%s}],"temperature":1e999}' % _TEXT,
    b'{"messages":[{"role":"user","content":%s}],"n":%s}' % (_TEXT, b"9" * 5000),
    b'{"messages":[{"role":"user","content":%s}]} trailing' % _TEXT,
    PLAIN + b"\n" + PLAIN,
    b"{}\n" + PLAIN,
    PLAIN[:-1],
    b"/* c */" + PLAIN,
    b"[" * 100_000 + _TEXT,
    b'{"a":' * 200 + _TEXT + b"}" * 200,
    b'{"messages":[{"role":"user","content":{"text":%s}}]}' % _TEXT,
    b'{"messages":[{"role":"user","content":[[[%s]]]}]}' % _TEXT,
    b'{"messages":{"0":{"role":"user","content":%s}}}' % _TEXT,
    b'{"messages":[{"role":"user","content":["x",{"type":"unheard","unheard":%s}]}]}' % _TEXT,
    b'{"messages":[],"x_new_field":%s}' % _TEXT,
    b'{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":%s}}]}' % _TEXT,
    b'{"messages":[],"metadata":{%s:"x"}}' % _TEXT,
    b'{"messages":[],"stop":[%s]}' % _TEXT,
    b'{"messages":[{"role":"tool","tool_call_id":"1","content":%s}]}' % _TEXT,
    b'{"messages":[{"role":7,"content":%s}]}' % _TEXT,
    b'{"input":%s}' % _TEXT,
    b'{"prompt":[%s]}' % _TEXT,
    _TEXT,
    b"[" + _TEXT + b"]",
    EVIL.encode(),
    b'--B\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n' + EVIL.encode() + b"\r\n--B--\r\n",
]

Coding = tuple[str, Callable[[bytes], bytes]]
CODINGS: list[Coding] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("x-gzip", gzip.compress),
    ("gzip, gzip", lambda b: gzip.compress(gzip.compress(b))),
    ("GZIP", gzip.compress),
    ("br", lambda b: b),
    ("zstd", lambda b: b),
    ("identity", lambda b: b),
    ("unheard", lambda b: b),
    ("gzip", lambda b: b),
    ("gzip", lambda b: gzip.compress(b)[:-4]),
    ("gzip", lambda b: gzip.compress(b"{}") + gzip.compress(b)),
    ("deflate", lambda b: zlib.compress(b)[2:-4]),
    ("gzip\r\nContent-Encoding: gzip", gzip.compress),
]


def request(
    method: str = "POST",
    path: str = PATHS[0],
    body: bytes = PLAIN,
    kind: str = TYPES[0],
    *,
    fields: tuple[str, ...] = (),
    length: bool = True,
    version: str = "HTTP/1.1",
) -> bytes:
    """One request, raw."""
    head = [f"{method} {path} {version}", "Host: x", "Connection: close"]
    head += [f"Content-Type: {kind}"] if kind else []
    head += [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join([*head, *fields, "", ""]).encode("latin-1") + body


def chunked(body: bytes, size: int = 7, extension: bytes = b"") -> bytes:
    """The body in chunks."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces) + b"0\r\n\r\n"


def framings(body: bytes) -> Iterator[bytes]:
    """The same body with framings that two servers could read differently."""
    te = "Transfer-Encoding: chunked"
    size = f"Content-Length: {len(body)}"
    yield request(body=chunked(body), fields=(te,), length=False)
    yield request(body=chunked(body, 1000, b";x=y"), fields=(te,), length=False)
    yield request(body=chunked(body), fields=(te, size), length=False)
    yield request(body=chunked(body), fields=(size, te), length=False)
    yield request(body=chunked(body), fields=("Transfer-Encoding: xchunked",), length=False)
    yield request(body=chunked(body), fields=("Transfer-Encoding : chunked",), length=False)
    yield request(body=chunked(body), fields=("Transfer-Encoding: identity, chunked",), length=False)
    yield request(body=chunked(body), fields=(te, te), length=False)
    yield request(body=chunked(body), fields=(te,), length=False, version="HTTP/1.0")
    yield request(body=chunked(body)[:-5], fields=(te,), length=False)
    yield request(body=b"zz\r\n" + chunked(body), fields=(te,), length=False)
    yield request(body=body, fields=(size,))
    yield request(body=body, fields=("Content-Length: 0",))
    yield request(body=body, fields=(f"Content-Length: +{len(body)}",), length=False)
    yield request(body=body, fields=(f"Content-Length: {len(body)}, {len(body)}",), length=False)
    yield request(body=body, fields=("Content-Length: 9999999999999999999999",), length=False)
    yield request(body=body, fields=(f"Content-Length: {len(body) + 1}",), length=False)
    yield request(body=body, fields=(f"Content-Length: {max(0, len(body) - 1)}",), length=False)
    yield request(body=body, length=False)
    yield request(body=body, version="HTTP/2.0")
    yield request(body=body, version="HTTP/1.0")
    yield request(body=body, version="HTTP/9.9")
    yield request(body=body, fields=("X-Folded: a", " b"))
    yield request(body=body, fields=("Expect: 100-continue",))
    yield request(body=body, fields=("Expect: unheard",))
    yield request(body=body, fields=("Upgrade: websocket", "Connection: upgrade"))
    yield request(body=body, fields=("Upgrade: h2c", "Connection: upgrade, http2-settings"))
    yield request("GET", "/v1/models", b"", length=False).replace(b"close", b"keep-alive") + request(body=body)
    yield request("GET", "/v1/models", body)
    yield request("GET", "/v1/models", body, fields=("X-HTTP-Method-Override: POST",))
    yield request(body=body, fields=("X-Original-URL: /v1/models", "X-HTTP-Method: GET"))
    yield request(body=body, fields=("X-Bad: \xff\xfe", "X-Sidecar-Action: allow"))
    yield request(body=body, fields=("Bad Name: x",))
    yield request(body=body, fields=("X-Nul: a\x00b",))
    yield request(body=body).replace(b"\r\n", b"\n")


def corpus() -> Iterator[bytes]:
    """The whole corpus, about 2,500 requests, the same in every run."""
    yield from (request(method, path) for path, method in product(PATHS, METHODS))
    yield from (request("POST", path, body) for path, body in product(PATHS, BODIES))
    yield from (request(body=body, kind=kind) for kind, body in product(TYPES[1:], BODIES))
    for name, code in CODINGS:
        yield from (request(body=code(body), fields=(f"Content-Encoding: {name}",)) for body in BODIES)
    chooser = random.Random(11)  # noqa: S311 - the same in every run
    for body in (PLAIN, b"", *chooser.sample(BODIES, 6)):
        yield from framings(body)
    for _ in range(200):
        yield request(body=_damaged(chooser.choice([body for body in BODIES if b"EVIL" in body]), chooser))


def _damaged(body: bytes, chooser: random.Random) -> bytes:
    """Change a few random bytes, except for the word EVIL."""
    changed, word = bytearray(body), body.index(b"EVIL")
    for _ in range(chooser.randint(1, 4)):
        place = chooser.randrange(len(changed))
        if not word <= place < word + 4:
            changed[place] = chooser.randrange(256)
    return bytes(changed)
