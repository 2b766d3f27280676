"""Twin of sidecar/api/compat/envoy_processor.py: streams over real gRPC. Envoy itself is in test_processing.py."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web
from compat_server import CompatServer, run_compat_server
from envoy_stream import DUPLEX, MODES, POST, EnvoyCall, Outcome, Refused, exchange

from sidecar.api.compat.envoy_direction import BodyMode
from sidecar.api.compat.envoy_grpc import EnvoyGrpc
from sidecar.api.compat.envoy_processor import DataHandler, GrpcLine, peer_address
from sidecar.config import Settings
from sidecar.errors import UpstreamError

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
EVIL = CHAT.replace(b"Hello", b"Please EVIL now.")
MAIL = CHAT.replace(b"Hello", b"Write to jon.frey@seepost.ch.")
CANARY = "kestrel-canary-7731"
BLOCK = {"responses": "block", "answers": {"canary": CANARY}}
PAIRS = [(request, response) for request in MODES for response in MODES]
EVENTS = {"content-type": "text/event-stream"}


def answer(text: str) -> bytes:
    """A complete answer of the model."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}).encode()


def events(text: str) -> list[bytes]:
    """A streamed answer, a word an event."""
    deltas = [{"content": f"{word} "} for word in text.split()]
    chunks = [{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return [*(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


@dataclass
class Line:
    """A channel to the port of the streams."""

    server: CompatServer
    channel: Any

    async def ask(
        self, chunks: Any = (CHAT,), reply: Any = None, modes: Any = (DUPLEX, DUPLEX), **more: Any
    ) -> Outcome:
        """One exchange."""
        return await exchange(self.channel, modes, chunks, reply or [answer("Paris.")], **more)

    @property
    def actions(self) -> list[str]:
        """What was decided."""
        return [decision.action for decision in self.server.decision_log.decisions]


@asynccontextmanager
async def line(
    folder: Path, *, on: bool = True, handler: DataHandler | None = None, **sections: Any
) -> AsyncIterator[Line]:
    """The gRPC port in front of a scanner for tests; `handler` replaces it."""
    async with run_compat_server(folder, "envoy", **sections) as server:
        settings = Settings.model_validate({"compat": {"envoy": True}, **sections})
        port_server = EnvoyGrpc(settings, handler or server.handler, lambda: on)
        try:
            port = await port_server.listen(0)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Line(server, channel)
        finally:
            await port_server.close(0)


@pytest.mark.parametrize("modes", PAIRS, ids=lambda pair: "-".join(mode.name for mode in pair))
async def test_what_passes_is_forwarded_as_it_came(tmp_path: Path, modes: Any) -> None:
    """In every mode and in pieces: bytes unchanged both ways, and the client sees the verdict."""
    reply = [answer("Paris.")[:30], answer("Paris.")[30:]]
    async with line(tmp_path, **BLOCK) as envoy:
        got = await envoy.ask([CHAT[:20], CHAT[20:]], reply, modes, answer_headers={"x-other": "1"})
    assert got.request is not None
    assert (got.status, got.request.body, got.response.body) == (200, CHAT, answer("Paris."))
    assert (got.response.headers["x-sidecar-action"], got.response.headers["x-other"]) == ("allow", "1")
    assert envoy.actions == ["allow"]
    assert envoy.server.scanner.texts == ["Hello"]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
async def test_an_attack_is_the_inline_doors_answer(tmp_path: Path, mode: BodyMode) -> None:
    """In every mode, and before a byte of the body has gone on."""
    async with line(tmp_path) as envoy:
        got = await envoy.ask([EVIL[:20], EVIL[20:]], modes=(mode, DUPLEX))
    assert (got.status, got.request, got.is_cut) == (400, None, False)
    assert json.loads(got.response.body)["error"]["code"] == "content_filter"
    assert (got.response.headers["x-should-retry"], got.response.headers["x-sidecar-action"]) == ("false", "block")
    assert not any(reply.request_body.response.body_mutation.body for reply in got.replies)
    assert envoy.actions == ["block"]


async def test_refusals_speak_the_dialect_and_the_style(tmp_path: Path) -> None:
    """Anthropic's envelope on its route, and a completion where `block.style` says so."""
    message = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "EVIL"}]}).encode()
    async with line(tmp_path) as envoy:
        anthropic = await envoy.ask([message], headers={":path": "/v1/messages"})
    async with line(tmp_path, block={"style": "refusal"}) as envoy:
        completion = await envoy.ask([EVIL])
    assert json.loads(anthropic.response.body)["type"] == "error"
    assert (completion.status, json.loads(completion.response.body)["choices"][0]["finish_reason"]) == (
        200,
        "content_filter",
    )


@pytest.mark.parametrize("modes", PAIRS, ids=lambda pair: "-".join(mode.name for mode in pair))
async def test_personal_data_is_replaced_and_restored(tmp_path: Path, modes: Any) -> None:
    """The model sees a placeholder, the client the value, with a fitting length where there is one."""
    async with line(tmp_path, pii="redact", answers={"restore": True}) as envoy:
        reply = answer("I wrote to <EMAIL_1>.")
        lengths = {"headers": {"content-length": str(len(MAIL))}, "answer_headers": {"content-length": str(len(reply))}}
        got = await envoy.ask([MAIL], [reply], modes, **lengths)
    assert got.request is not None
    assert b"<EMAIL_1>" in got.request.body
    assert b"jon.frey" not in got.request.body
    assert b"jon.frey@seepost.ch" in got.response.body
    for message, mode in ((got.request, modes[0]), (got.response, modes[1])):
        if mode is BodyMode.BUFFERED:
            assert message.headers["content-length"] == str(len(message.body))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
async def test_an_answer_with_a_leak_is_withheld(tmp_path: Path, mode: BodyMode) -> None:
    """As the block answer where nothing has gone on; and nothing of it passes in any mode."""
    async with line(tmp_path, **BLOCK) as envoy:
        got = await envoy.ask(reply=[answer(f"It is {CANARY}.")], modes=(DUPLEX, mode))
    assert (got.status, got.response.headers["x-sidecar-answer"]) == (400, "block")
    assert CANARY.encode() not in b"".join(reply.SerializeToString() for reply in got.replies)
    assert envoy.actions == ["allow", "block"]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
async def test_a_stream_passes_through_the_scanner(tmp_path: Path, mode: BodyMode) -> None:
    """Event by event and unchanged; one that leaks is cut with an error, or ended in the manner of `block.style`."""
    clean, leak = events("Paris is the capital. " * 30), events("Well, it is " + CANARY + " and more words. " * 30)
    modes, kind = (DUPLEX, mode), {"answer_headers": EVENTS}
    async with line(tmp_path, **BLOCK) as envoy:
        passed = await envoy.ask(reply=clean, modes=modes, **kind)
        cut = await envoy.ask(reply=leak, modes=modes, **kind)
    async with line(tmp_path, **BLOCK, block={"style": "refusal"}) as envoy:
        ended = await envoy.ask(reply=leak, modes=modes, **kind)
    assert (passed.status, passed.response.body) == (200, b"".join(clean))
    assert (cut.is_cut, cut.response.headers["x-sidecar-action"]) == (mode is not BodyMode.BUFFERED, "allow")
    sent = b"".join(reply.SerializeToString() for reply in cut.replies)
    assert b"content_filter" in sent
    assert CANARY.encode() not in sent
    assert (ended.status, ended.response.body.endswith(b"[DONE]\n\n")) == (200, True)
    assert CANARY.encode() not in ended.response.body


@pytest.mark.parametrize("mode", [DUPLEX, BodyMode.BUFFERED], ids=lambda mode: mode.name)
async def test_a_compressed_body_goes_on_as_it_was_scanned(tmp_path: Path, mode: BodyMode) -> None:
    """Without its coding, and with a fitting length."""
    packed = gzip.compress(CHAT)
    headers = {"content-encoding": "gzip", "content-length": str(len(packed))}
    async with line(tmp_path) as envoy:
        got = await envoy.ask([packed], modes=(mode, DUPLEX), headers=headers)
        evil = await envoy.ask([gzip.compress(EVIL)], modes=(mode, DUPLEX), headers={"content-encoding": "gzip"})
    assert got.request is not None
    assert (got.request.body, "content-encoding" in got.request.headers, evil.status) == (CHAT, False, 400)
    if mode is BodyMode.BUFFERED:
        assert got.request.headers["content-length"] == str(len(CHAT))


async def test_a_refused_turn_is_stripped(tmp_path: Path) -> None:
    """`history: strip` changes the body, which a check cannot."""
    turns = [("user", "EVIL"), ("assistant", "No."), ("user", "Hello")]
    body = {"model": "m", "messages": [{"role": role, "content": text} for role, text in turns]}
    async with line(tmp_path, history="strip") as envoy:
        got = await envoy.ask([json.dumps(body).encode()])
    assert got.request is not None
    assert b"EVIL" not in got.request.body
    assert got.response.headers["x-sidecar-stripped"] == "1"


async def test_keys_and_reserved_headers_stay_here(tmp_path: Path) -> None:
    """The model gets neither our key nor our headers, the client none that the model made up."""
    headers = {"authorization": "Bearer sk-model", "x-sidecar-action": "allow", "x-http-method-override": "PUT"}
    async with line(tmp_path, auth={"inline": "required"}) as envoy:
        without = await envoy.ask(headers=headers)
        key = {"x-api-key": envoy.server.key}
        got = await envoy.ask(
            headers=headers | key, answer_headers={"x-sidecar-threats": "spoofed", "x-sidecar-x": "1"}
        )
    assert (without.status, without.request) == (401, None)
    assert got.request is not None
    assert got.request.headers == POST | {"authorization": "Bearer sk-model"}
    assert (got.response.headers["x-sidecar-threats"], "x-sidecar-x" in got.response.headers) == ("", False)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"modes": (BodyMode.NONE, DUPLEX)}, 413),
        ({"modes": (BodyMode.BUFFERED_PARTIAL, DUPLEX)}, 503),
        ({"modes": (BodyMode.GRPC, DUPLEX)}, 503),
        ({"modes": None}, 503),
        ({"headers": {":path": "*"}}, 400),
        ({"headers": {":path": "/v1/unknown"}}, 403),
        ({"headers": {":path": "/../api/v1/prompt/scan"}}, 400),
        ({"chunks": [b"{"]}, 400),
        ({"chunks": [CHAT], "headers": {"upgrade": "websocket", ":path": "/v1/realtime"}}, 426),
        ({"modes": (BodyMode.STREAMED, DUPLEX), "headers": {"content-encoding": "gzip"}}, 415),
        ({"chunks": [CHAT, b" " * 2000]}, 413),
    ],
    ids=["none", "partial", "grpc", "unsaid", "star", "route", "climbing", "json", "upgrade", "gzip", "large"],
)
async def test_what_cannot_be_scanned_is_refused(tmp_path: Path, wrong: dict[str, Any], status: int) -> None:
    """As a response to the client, never as an error or a clean end of the stream, which Envoy could let pass."""
    limits = {"body_bytes": 1024, "bodies": 102_400}
    async with line(tmp_path, limits=limits) as envoy:
        got = await envoy.ask(**wrong)
    assert (got.status, got.request) == (status, None)
    assert not envoy.server.scanner.scanned


async def test_a_body_that_envoy_keeps_is_named_where_it_may_pass(tmp_path: Path) -> None:
    """`failure.input.oversize: allow`: unscanned, and recorded as that."""
    async with line(tmp_path, failure={"input": {"oversize": "allow"}}) as envoy:
        got = await envoy.ask(modes=(BodyMode.NONE, BodyMode.NONE))
    assert (got.status, got.response.headers["x-sidecar-unscanned"]) == (200, "oversize")
    assert [decision.unscanned for decision in envoy.server.decision_log.decisions] == ["oversize"]


@pytest.mark.parametrize("mode", [BodyMode.NONE, BodyMode.BUFFERED_PARTIAL])
async def test_answers_that_envoy_keeps_are_refused_or_named(tmp_path: Path, mode: BodyMode) -> None:
    """Before the model is asked if a finding would withhold them, else in the header; without `responses` they pass."""
    async with line(tmp_path, **BLOCK) as envoy:
        refused = await envoy.ask(modes=(DUPLEX, mode))
    async with line(tmp_path, **BLOCK, failure={"answer": "allow"}) as envoy:
        named = await envoy.ask(modes=(DUPLEX, BodyMode.NONE))
    async with line(tmp_path) as envoy:
        passed = await envoy.ask(modes=(DUPLEX, BodyMode.NONE))
    assert (refused.status, refused.request) == (503, None)
    assert (named.status, named.response.headers["x-sidecar-answer"]) == (200, "unscanned")
    assert (passed.status, "x-sidecar-answer" in passed.response.headers) == (200, False)


async def test_a_request_without_a_body_passes_in_any_mode(tmp_path: Path) -> None:
    """`GET /v1/models` has nothing to scan."""
    models = {":method": "GET", ":path": "/v1/models"}
    async with line(tmp_path) as envoy:
        for modes in ((BodyMode.NONE, BodyMode.NONE), (DUPLEX, DUPLEX)):
            got = await envoy.ask(None, [b"{}"], modes, headers=models)
            assert got.status == 200


@pytest.mark.parametrize("trouble", ["off", "no headers", "exception"])
async def test_trouble_is_answered(tmp_path: Path, trouble: str) -> None:
    """Whatever is not finished gets a response of our own."""

    async def fail(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text="no")

    async with line(tmp_path, on=trouble != "off", handler=fail if trouble == "exception" else None) as envoy:
        if trouble == "no headers":
            call = EnvoyCall(envoy.channel, (DUPLEX, DUPLEX))
            await call.send(request_body={"body": EVIL, "end_of_stream": True})
            with pytest.raises(Refused, match="503"):
                await call.receive()
        else:
            assert (await envoy.ask()).status == (503 if trouble == "off" else 500)


async def test_observability_mode_is_refused(tmp_path: Path) -> None:
    """Envoy waits for no reply then, so nothing can be refused: the stream ends with an error."""
    async with line(tmp_path) as envoy:
        call = EnvoyCall(envoy.channel, (DUPLEX, DUPLEX))
        await call.send(request_headers={"end_of_stream": True}, observability_mode=True)
        assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_headers_of_the_response_are_needed(tmp_path: Path) -> None:
    """`response_header_mode: SKIP`: what comes instead is refused."""
    async with line(tmp_path, **BLOCK) as envoy:
        call = EnvoyCall(envoy.channel, (DUPLEX, DUPLEX))
        await call.pass_on("request", POST, [CHAT])
        await call.send(response_body={"body": answer("Paris."), "end_of_stream": True})
        with pytest.raises(Refused, match="502"):
            await call.receive()


@pytest.mark.parametrize("ends", ["cancel", "close"])
async def test_a_client_that_leaves_is_recorded(tmp_path: Path, ends: str) -> None:
    """Envoy resets or ends the stream while the model works: status 499, as inline."""
    async with line(tmp_path) as envoy:
        call = EnvoyCall(envoy.channel, (DUPLEX, DUPLEX))
        await call.pass_on("request", POST, [CHAT])
        if ends == "cancel":
            call.cancel()
        else:
            await call.close()
        for _ in range(500):
            if envoy.actions:
                break
            await asyncio.sleep(0.01)
    assert [decision.status for decision in envoy.server.decision_log.decisions] == [499]


async def test_trailers_are_removed(tmp_path: Path) -> None:
    """They end a body, and no layer reads them."""
    async with line(tmp_path, **BLOCK) as envoy:
        call = EnvoyCall(envoy.channel, (DUPLEX, DUPLEX))
        await call.send(
            request_headers={"headers": {"headers": [{"key": k, "raw_value": v.encode()} for k, v in POST.items()]}}
        )
        await call.send(request_body={"body": CHAT})
        await call.send(request_trailers={"trailers": {"headers": [{"key": "x-more", "raw_value": b"EVIL"}]}})
        names = [(await call.receive()) for _ in range(3)]
    assert [name for name, _ in names] == ["request_headers", "request_body", "request_trailers"]
    assert not names[1][1].response.body_mutation.streamed_response.end_of_stream
    assert list(names[2][1].header_mutation.remove_headers) == ["x-more"]


def test_the_peer_is_an_address() -> None:
    """As gRPC writes it."""
    assert peer_address("ipv4:192.0.2.1:443") == "192.0.2.1:443"


class Stuck:
    """The context of a stream whose peer takes no message."""

    def peer(self) -> str:
        """An address."""
        return "ipv4:192.0.2.1:443"

    async def write(self, _message: Any) -> None:
        """Never taken."""
        await asyncio.Event().wait()


async def test_a_reply_that_envoy_does_not_take_is_given_up() -> None:
    """After its timeout, so that no stream is held for ever."""
    with pytest.raises(UpstreamError, match="does not read"):
        await GrpcLine(Stuck(), 0.01).send(request_headers={})
