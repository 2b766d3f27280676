"""Twin of proxy/request_body.py: every line of `failure.input`, closed and open; the scanned content is forwarded."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import brotli
import pytest
from inline_proxy import CHAT, EVIL, eventually, run_proxy
from recording import Recording, recording, respond

from sidecar.util.codings import zstd

BODY = json.dumps(CHAT).encode()
JSON = {"Content_Type": "application/json"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="}}
WITH_IMAGE = {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}]}
TOKENS = {"model": "m", "prompt": [1, 2, 3]}
REFERENCE = {"model": "m", "input": "go on", "previous_response_id": "resp_1"}

# kind, body, path, headers, status when closed
FAULTS: list[tuple[str, Any, str, dict[str, str], int]] = [
    ("oversize", b'{"messages":"' + b"x" * 5000 + b'"}', "/v1/chat/completions", JSON, 413),
    ("malformed", b'{"messages": [', "/v1/chat/completions", JSON, 400),
    ("malformed", b'{"model":"a","model":"b"}', "/v1/chat/completions", JSON, 400),
    ("malformed", b"[]", "/v1/chat/completions", JSON, 400),
    ("malformed", b"", "/v1/chat/completions", JSON, 400),
    ("malformed", b"not gzip", "/v1/chat/completions", JSON | {"Content_Encoding": "gzip"}, 400),
    ("encoding", BODY, "/v1/chat/completions", {"Content_Type": "text/plain"}, 415),
    ("encoding", BODY, "/v1/chat/completions", {"Content_Type": "application/json; charset=utf-7"}, 415),
    ("encoding", BODY, "/v1/chat/completions", JSON | {"Content_Encoding": "dcb"}, 415),
    ("encoding", BODY, "/v1/chat/completions", JSON | {"Content_Encoding": "gzip, gzip"}, 415),
    ("media", WITH_IMAGE, "/v1/chat/completions", {}, 422),
    ("token_ids", TOKENS, "/v1/completions", {}, 422),
    ("reference", REFERENCE, "/v1/responses", {}, 422),
]
CLOSED = dict.fromkeys(["oversize", "malformed", "encoding", "media", "token_ids", "reference"], "block")
names = [f"{kind}-{number}" for number, (kind, *_) in enumerate(FAULTS)]


def sha(recorder: Recording) -> list[str]:
    """Digests of the forwarded bodies."""
    return [hashlib.sha256(body).hexdigest() for body in recorder.bodies]


@pytest.mark.parametrize(("kind", "body", "path", "headers", "status"), FAULTS, ids=names)
async def test_unscannable_requests_are_refused_when_closed(
    kind: str, body: Any, path: str, headers: dict[str, str], status: int
) -> None:
    """With the status of its kind; nothing is forwarded and the decision names the kind."""
    settings: Any = {"failure": {"input": CLOSED}, "limits": {"body_bytes": 4096}}
    async with recording() as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask(body, path, **headers)
    assert (upstream.connections, reply.status) == (0, status)
    assert (endpoint.decision.verdict.failure, endpoint.decision.action) == (kind, "block")


@pytest.mark.parametrize("mode", ["enforce", "monitor"])
@pytest.mark.parametrize(("kind", "body", "path", "headers", "status"), FAULTS, ids=names)
async def test_only_its_own_line_opens_a_kind_and_it_goes_up_as_sent(
    kind: str, body: Any, path: str, headers: dict[str, str], status: int, mode: str
) -> None:
    """Byte for byte, with the cause in response and decision; monitor allows every kind."""
    lines = CLOSED if mode == "monitor" else CLOSED | {kind: "allow"}
    settings: Any = {"failure": {"input": lines}, "limits": {"body_bytes": 4096}, "mode": mode}
    request_bytes = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask(body, path, **headers)
    assert (reply.status, reply.headers["x-sidecar-unscanned"], endpoint.decision.unscanned) == (200, kind, kind)
    assert sha(upstream) == [hashlib.sha256(request_bytes).hexdigest()]
    coding = headers.get("Content_Encoding")
    assert upstream.requests[0].header("content-encoding") == coding


@pytest.mark.parametrize(("ids", "status"), [([0, 2], 200), ([0, 1], 400), ([0, 7], 422)])
async def test_token_ids_are_scanned_where_their_vocabulary_is_set(tmp_path: Path, ids: list[int], status: int) -> None:
    """Decoded, scanned and forwarded unchanged; an unknown id or model is refused."""
    words = (b"Please", b" EVIL", b" now")
    lines = [base64.b64encode(word) + b" %d" % rank for rank, word in enumerate(words)]
    (tmp_path / "own.tiktoken").write_bytes(b"\n".join(lines))
    inline: Any = {"vocabularies": {"gpt-*": tmp_path / "own.tiktoken"}}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, inline=inline) as endpoint:
        reply = await endpoint.ask({"model": "gpt-3", "prompt": ids}, "/v1/completions")
        other = await endpoint.ask({"model": "other", "prompt": ids}, "/v1/completions")
    assert (reply.status, other.status, "x-sidecar-unscanned" in reply.headers) == (status, 422, False)
    assert [received.json()["prompt"] for received in upstream.requests] == ([ids] if status == 200 else [])
    if status == 400:
        assert (reply.error["code"], reply.error["param"]) == ("content_filter", "prompt")


async def test_what_is_beside_an_open_part_is_scanned_all_the_same() -> None:
    """The text beside an allowed image is still scanned."""
    body = {"messages": [{"role": "user", "content": [IMAGE, {"type": "text", "text": "EVIL"}]}]}
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(body)
    assert (reply.status, upstream.connections) == (400, 0)


PACK = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("coding", PACK)
async def test_a_compressed_body_goes_up_as_what_was_scanned(coding: str) -> None:
    """Decoded, without Content-Encoding and with its own length."""
    packed = PACK[coding](BODY)
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(packed, **JSON, Content_Encoding=coding)
    assert (reply.status, upstream.bodies) == (200, [BODY])
    received = upstream.requests[0]
    assert (received.header("content-encoding"), received.header("content-length")) == (None, str(len(BODY)))
    assert endpoint.scanner.texts[0] == CHAT["messages"][0]["content"]


@pytest.mark.parametrize("coding", PACK)
async def test_an_attack_in_a_compressed_body_is_seen(coding: str) -> None:
    """As in any other."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(PACK[coding](json.dumps(EVIL).encode()), **JSON, Content_Encoding=coding)
    assert (reply.status, upstream.connections) == (400, 0)


async def test_who_sends_another_coding_reads_which_are_taken() -> None:
    """In `Accept-Encoding` (RFC 9110, 12.5.3), so that a client can retry."""
    async with run_proxy() as endpoint:
        reply = await endpoint.ask(BODY, **JSON, Content_Encoding="compress")
    assert (reply.status, reply.headers["Accept-Encoding"]) == (415, "gzip, deflate, br, zstd")


async def test_a_bomb_is_refused_without_being_inflated() -> None:
    """1 GiB of zeros in 1 MB is never in memory."""
    bomb = gzip.compress(b"0" * 2**26)
    async with run_proxy(limits={"body_bytes": 2**20}) as endpoint:
        reply = await endpoint.ask(bomb, **JSON, Content_Encoding="gzip")
    assert (reply.status, endpoint.decision.verdict.failure) == (413, "oversize")


async def test_a_large_body_in_chunks_streams_up_when_oversize_is_open() -> None:
    """The part already read is sent first, and nothing is lost."""

    async def chunks() -> Any:
        for number in range(100):
            yield bytes([number]) * 1000
            await asyncio.sleep(0)

    settings: Any = {"failure": {"input": {"oversize": "allow"}}, "limits": {"body_bytes": 4096}}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        url = f"{endpoint.url}/chat/completions"
        async with endpoint.session.post(url, data=chunks(), headers={"Content-Type": "application/json"}) as actual:
            assert (actual.status, actual.headers["x-sidecar-unscanned"]) == (200, "oversize")
    assert upstream.bodies == [b"".join(bytes([number]) * 1000 for number in range(100))]


@pytest.mark.parametrize("fault", ["cut", "slow"])
async def test_a_body_that_did_not_arrive_whole_never_goes_up(fault: str) -> None:
    """Even if malformed bodies are allowed."""
    settings: Any = {"failure": {"input": {"malformed": "allow"}}, "limits": {"body_timeout": 0.2}}
    request_bytes = (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )
    async with recording() as upstream, run_proxy(upstream.url, **settings) as endpoint:
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(request_bytes)
        await writer.drain()
        if fault == "cut":
            writer.close()
        await eventually(lambda: endpoint.decision_log.decisions)
        writer.close()
    assert upstream.connections == 0
    assert endpoint.decision.status in {400, 408, 499}


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/models"), ("DELETE", "/v1/models/x")])
async def test_a_body_where_none_belongs_is_refused(method: str, path: str) -> None:
    """It could hold text; no client sends one."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(BODY, path, method, Content_Type="application/json")
    assert (reply.status, upstream.connections) == (400, 0)


async def test_two_content_types_are_refused() -> None:
    """Two servers could use different ones."""
    raw = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    raw += b"Content-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        actual = await endpoint.talk(raw + BODY)
    assert (actual.split(b" ")[1] in {b"400", b"415"}, upstream.connections) == (True, 0)


async def test_unknown_routes_can_be_opened() -> None:
    """Unscanned, and named so."""
    async with (
        recording(respond(b"{}")) as upstream,
        run_proxy(upstream.url, failure={"unknown_route": "allow"}) as endpoint,
    ):
        reply = await endpoint.ask(EVIL, "/v1/unheard/of")
    assert (reply.status, reply.headers["x-sidecar-unscanned"]) == (200, "unknown_route")
    assert upstream.requests[0].json() == EVIL


async def test_what_is_refused_did_not_go_up_unscanned() -> None:
    """Media beside an attack: the block names nothing as unscanned."""
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}
    text = {"type": "text", "text": "EVIL"}
    body = {"model": "m", "messages": [{"role": "user", "content": [image, text]}]}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(body)
    assert (reply.status, reply.headers.get("x-sidecar-unscanned"), upstream.requests) == (400, None, [])


async def test_routes_of_the_operator_are_scanned() -> None:
    """`inline.routes` makes a path known."""
    async with (
        recording(respond(b"{}")) as upstream,
        run_proxy(upstream.url, inline={"routes": ["/api/generate"]}) as endpoint,
    ):
        assert (await endpoint.ask({"prompt": "EVIL"}, "/api/generate")).status == 400
        assert (await endpoint.ask({"prompt": "fine"}, "/api/generate")).status == 200
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/v1/rerank", {"query": "Who?", "documents": ["Ann."]}),
        ("/rerank", {"query": "Who?", "documents": [{"text": "Ann."}]}),
        ("/v1/score", {"text_1": "Who?", "text_2": ["Ann."]}),
        ("/tokenize", {"prompt": "Ann."}),
    ],
)
async def test_rerankers_and_tokenizers_are_served_and_scanned(path: str, rest: dict[str, Any]) -> None:
    """The routes that vLLM and others have beside OpenAI's, without a setting."""
    body = json.dumps({"model": "m", **rest}).encode()
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        assert (await endpoint.ask(body, path, **JSON)).status == 200
        assert (await endpoint.ask(body.replace(b"Ann.", b"EVIL"), path, **JSON)).status == 400
    assert upstream.bodies == [body]


def form(**fields: str | bytes) -> tuple[bytes, str]:
    """A form with text fields, and files where the value is bytes."""
    parts = b""
    for name, value in fields.items():
        extra = '; filename="f.jsonl"\r\nContent-Type: application/octet-stream' if isinstance(value, bytes) else ""
        data = value if isinstance(value, bytes) else value.encode()
        parts += f'--B\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'.encode() + data + b"\r\n"
    return parts + b"--B--\r\n", "multipart/form-data; boundary=B"


async def test_the_text_of_a_form_is_scanned_and_the_form_goes_up_as_sent() -> None:
    """The prompt of a transcription; its sound is media."""
    clean, kind = form(file=b"\x00\x01\xff\xfe" * 64, model="whisper-1", prompt="Names: Ann")
    evil, _ = form(file=b"\x00\x01\xff\xfe" * 64, model="whisper-1", prompt="EVIL")
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        passed = await endpoint.ask(clean, "/v1/audio/transcriptions", Content_Type=kind)
        blocked = await endpoint.ask(evil, "/v1/audio/transcriptions", Content_Type=kind)
    assert (passed.status, passed.headers["x-sidecar-unscanned"], blocked.status) == (200, "media", 400)
    assert upstream.bodies == [clean]


LINE = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}).encode()
EVIL_LINE = json.dumps({"custom_id": "2", "method": "POST", "url": "/v1/chat/completions", "body": EVIL}).encode()


@pytest.mark.parametrize(
    ("policy", "lines", "status", "unscanned"),
    [
        ("deny", LINE, 403, None),
        ("allow", EVIL_LINE, 200, "files"),
        ("scan_jsonl", LINE, 200, None),
        ("scan_jsonl", LINE + b"\n" + EVIL_LINE, 400, None),
        ("scan_jsonl", LINE + b"\n{", 400, None),
    ],
)
async def test_files_follow_their_policy(policy: str, lines: bytes, status: int, unscanned: str | None) -> None:
    """Each line of a batch file is a prompt."""
    body, kind = form(purpose="batch", file=lines)
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, inline={"files": policy}) as endpoint:
        reply = await endpoint.ask(body, "/v1/files", Content_Type=kind)
    assert (reply.status, reply.headers.get("x-sidecar-unscanned")) == (status, unscanned)
    assert len(upstream.requests) == (1 if status == 200 else 0)


async def test_a_large_body_does_not_hold_up_others() -> None:
    """It is parsed in a thread, with the same result."""
    texts = [{"role": "user", "content": "word " * 20}] * 4000
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        assert (await endpoint.ask({"messages": texts})).status == 200
        assert (await endpoint.ask({"messages": [*texts, {"role": "user", "content": "EVIL"}]})).status == 400
    assert len(upstream.requests) == 1


CONVERSE = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
WITH_QUERY = (
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/responses", {"model": "m", "input": "hi"}),
    ("POST", "/v1/messages", CHAT | {"max_tokens": 9}),
    ("POST", "/openai/deployments/m/chat/completions", CHAT),
    ("POST", "/v1beta/models/gemini-3:generateContent", CONTENTS),
    ("POST", "/model/anthropic.claude-4/converse", CONVERSE),
    ("POST", "/v2/chat", CHAT),
    ("GET", "/v1/models", None),
)


@pytest.mark.parametrize(("method", "path", "body"), WITH_QUERY)
async def test_words_in_the_query_are_scanned_on_every_route(method: str, path: str, body: Any) -> None:
    """In a value or a name, encoded once or twice; the response names the parameter."""
    queries = ("prompt=Please%20EVIL", "q=Please%2520EVIL", "Please+EVIL=1")
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        replies = [await endpoint.ask(body, f"{path}?api-version=1&{query}", method) for query in queries]
        plain = await endpoint.ask(body, f"{path}?api-version=2024-10-21-preview", method)
    assert ([reply.status for reply in replies], plain.status) == ([400] * 3, 200)
    assert [request.target for request in upstream.requests] == [f"{path}?api-version=2024-10-21-preview"]


async def test_a_query_is_scanned_again_after_the_body_was_rewritten() -> None:
    """Removing refused turns does not remove what the query says; what redaction cannot replace is refused."""
    turns = [*EVIL["messages"], {"role": "assistant", "content": "no"}, *CHAT["messages"]]
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, history="strip") as endpoint:
        stripped = await endpoint.ask({"model": "m", "messages": turns}, "/v1/chat/completions?x=Good%20day")
        refused = await endpoint.ask({"model": "m", "messages": turns}, "/v1/chat/completions?x=Please%20EVIL")
    assert (stripped.status, refused.status, len(upstream.requests)) == (200, 400, 1)


@pytest.mark.parametrize(("line", "status"), [("block", 415), ("allow", 200)])
async def test_a_query_that_is_not_utf_8_follows_the_line_of_encodings(line: str, status: int) -> None:
    """Refused, or forwarded as sent and named."""
    settings: Any = {"failure": {"input": {"encoding": line}}}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask(CHAT, "/v1/chat/completions?prompt=%ff%fe")
    assert (reply.status, reply.headers.get("x-sidecar-unscanned")) == (status, None if line == "block" else "encoding")
    assert [request.target for request in upstream.requests] == ["/v1/chat/completions?prompt=%ff%fe"][: status == 200]
