"""Twin of sidecar/proxy/websockets.py: a real client, the proxy, and a real upstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError, web
from aiohttp.test_utils import TestServer
from inline_proxy import ATTACK, InlineProxy, eventually, run_proxy

from sidecar import config


@dataclass
class Behind:
    """A server that records messages and answers each."""

    heard: list[Any] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    closed: list[int | None] = field(default_factory=list)
    url: str = ""

    async def talk(self, request: web.Request) -> web.StreamResponse:
        """One client."""
        self.headers.append(request.headers.copy())
        endpoint = web.WebSocketResponse(protocols=["realtime"])
        await endpoint.prepare(request)
        async for message in endpoint:
            self.heard.append(json.loads(message.data))
            if message.data == '{"type": "end"}':
                await endpoint.close(code=4001)
                break
            await endpoint.send_str(json.dumps({"type": "heard", "count": len(self.heard)}))
            await endpoint.send_bytes(b"sound")
        self.closed.append(endpoint.close_code)
        return endpoint


@asynccontextmanager
async def behind(**settings: Any) -> AsyncIterator[tuple[Behind, InlineProxy]]:
    """The server behind a proxy with websockets enabled."""
    server, app = Behind(), web.Application()
    app.router.add_get("/{tail:.*}", server.talk)
    async with TestServer(app) as running:
        server.url = str(running.make_url("/")).rstrip("/")
        async with run_proxy(server.url, inline={"websockets": True}, **settings) as endpoint:
            yield server, endpoint


def item(text: str) -> str:
    """An event that adds a user's turn."""
    content = [{"type": "input_text", "text": text}]
    turn = {"type": "message", "role": "user", "content": content}
    return json.dumps({"type": "conversation.item.create", "item": turn})


async def test_a_harmless_message_passes_as_it_is_and_so_does_what_comes_back() -> None:
    """Text and binary frames, in order; each message has a decision, and so has the handshake."""
    async with (
        behind() as (server, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/realtime?model=m") as socket,
    ):
        for count in (1, 2):
            await socket.send_str(item("Hello there."))
            assert json.loads(await socket.receive_str()) == {"type": "heard", "count": count}
            assert await socket.receive_bytes() == b"sound"
        await eventually(lambda: len(endpoint.decision_log.decisions) == 3)
        assert server.heard == [json.loads(item("Hello there."))] * 2
        assert [entry.status for entry in endpoint.decision_log.decisions] == [101, 200, 200]
        assert [entry.model for entry in endpoint.decision_log.decisions[1:]] == ["m", "m"]


async def test_an_attack_is_not_forwarded_and_the_websocket_stays_open() -> None:
    """The client gets an error event with path and decision; its next message is forwarded."""
    async with (
        behind() as (server, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/realtime?model=m") as socket,
    ):
        await socket.send_str(item(ATTACK))
        event = json.loads(await socket.receive_str())
        await socket.send_str(item("Sorry, hello."))
        assert json.loads(await socket.receive_str())["type"] == "heard"
    assert (event["type"], event["status"], event["error"]["code"]) == ("error", 400, "content_filter")
    assert event["error"]["param"] == "item.content.0.text"
    assert len(server.heard) == 1
    blocked = endpoint.decision_log.decisions[1]
    assert (blocked.action, event["error"]["sidecar"]["decision"]) == ("block", blocked.id)


@pytest.mark.parametrize("sent", ["no json", "[1]", '{"a": 1, "a": 2}'])
async def test_what_cannot_be_read_does_not_go_up(sent: str) -> None:
    """Like a body of HTTP that is malformed."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/responses") as socket:
        await socket.send_str(sent)
        event = json.loads(await socket.receive_str())
        assert (event["type"], event["status"]) == ("error", 400)
        assert server.heard == []


async def test_binary_messages_are_refused() -> None:
    """Neither API has binary messages; the refusal has a decision like any other."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        await socket.send_bytes(b"EVIL")
        event = json.loads(await socket.receive_str())
        assert (event["status"], event["event_id"]) == (415, f"event_{endpoint.decision_log.decisions[1].id}")
        assert event["error"]["sidecar"]["decision"] == endpoint.decision_log.decisions[1].id
        assert server.heard == []


async def test_what_cannot_be_scanned_goes_up_where_the_operator_says_so() -> None:
    """Text and binary messages, unchanged, and named in the decision."""
    opened = {"input": {"encoding": "allow", "malformed": "allow"}}
    async with (
        behind(failure=opened) as (_, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket,
    ):
        await socket.send_bytes(b'{"type": "sound"}')
        assert json.loads(await socket.receive_str())["type"] == "heard"
        await socket.receive_bytes()
        await socket.send_str('{"a": 1, "a": 2}')
        assert json.loads(await socket.receive_str())["type"] == "heard"
        assert [entry.unscanned for entry in endpoint.decision_log.decisions[1:]] == ["encoding", "malformed"]


async def test_monitor_lets_everything_up_and_says_what_it_found() -> None:
    """As over HTTP."""
    async with (
        behind(mode="monitor") as (server, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket,
    ):
        for sent in (item(ATTACK), '{"a": 1, "a": 2}'):
            await socket.send_str(sent)
            assert json.loads(await socket.receive_str())["type"] == "heard"
            await socket.receive_bytes()
        assert [entry.action for entry in endpoint.decision_log.decisions[1:]] == ["monitor", "monitor"]
        assert len(server.heard) == 2


async def test_many_and_large_messages_pass() -> None:
    """More bytes than a request head may have; no memory stays reserved."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        for text in ("word " * 20_000, *(["Hello there."] * 200)):
            await socket.send_str(item(text))
            assert json.loads(await socket.receive_str())["type"] == "heard"
            await socket.receive_bytes()
        assert len(server.heard) == 201


async def test_a_message_is_admitted_like_a_request() -> None:
    """While the required log cannot be written nothing is forwarded."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        endpoint.decision_log.broken = True
        await socket.send_str(item("Hello."))
        assert json.loads(await socket.receive_str())["status"] == 503
        assert server.heard == []


async def test_sound_follows_its_line() -> None:
    """Audio chunks are media, in a buffer and in an item."""
    piece = "UklGRg" * 300
    kinds = {"input": {"media": "block"}}
    notice = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": piece}]}
    async with (
        behind(failure=kinds) as (server, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket,
    ):
        for event in (
            {"type": "input_audio_buffer.append", "audio": piece},
            {"type": "conversation.item.create", "item": notice},
        ):
            await socket.send_str(json.dumps(event))
            assert json.loads(await socket.receive_str())["status"] == 422
        assert server.heard == []


@pytest.mark.parametrize(
    ("query", "event"),
    [
        ("?model=m", {"type": "response.create", "model": "n", "input": "Hi"}),
        ("", {"type": "response.create", "model": "theirs", "input": "Hi"}),
    ],
)
async def test_a_model_that_is_served_elsewhere_is_refused(query: str, event: dict[str, str]) -> None:
    """The websocket is connected to one upstream."""
    models = {"theirs": {"upstream": {"url": "http://127.0.0.1:9"}}}
    async with (
        behind(models=models) as (server, endpoint),
        endpoint.session.ws_connect(f"{endpoint.url}/responses{query}") as socket,
    ):
        await socket.send_str(json.dumps(event))
        assert json.loads(await socket.receive_str())["status"] == 400
        assert server.heard == []


async def test_words_in_the_query_of_a_websocket_are_scanned_before_it_is_opened() -> None:
    """The answer is one over HTTP, and nothing reaches the upstream."""
    async with behind() as (server, endpoint):
        with pytest.raises(WSServerHandshakeError) as refused:
            await endpoint.session.ws_connect(f"{endpoint.url}/realtime?model=m&prompt=Please+EVIL")
        async with endpoint.session.ws_connect(f"{endpoint.url}/realtime?model=m&intent=transcription") as socket:
            await socket.send_str(item("Hello."))
            assert json.loads(await socket.receive_str())["count"] == 1
    assert (refused.value.status, len(server.heard)) == (400, 1)
    assert [decision.status for decision in endpoint.decision_log.decisions[:1]] == [400]


async def test_what_the_upstream_said_last_arrives() -> None:
    """Messages before its close arrive, although the client sends at the same time."""
    async with behind() as (_, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        await socket.send_str(item("Hello."))
        await socket.send_str('{"type": "end"}')
        await socket.send_str(item("Too late."))
        kinds = [(await socket.receive()).type for _ in range(3)]
        assert kinds == [WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CLOSE]
        assert socket.close_code == 4001


async def test_a_request_that_is_no_handshake_is_refused() -> None:
    """Before connecting to the upstream."""
    async with behind() as (server, endpoint):
        answer = await endpoint.ask(None, "/v1/realtime", "GET", Upgrade="websocket", Connection="Upgrade")
        assert answer.status == 400
        assert server.headers == []


async def test_the_sidecars_own_key_stays_here() -> None:
    """In the subprotocols, as browsers send it, or in a header."""
    async with behind() as (server, endpoint):
        await endpoint.session.ws_connect(f"{endpoint.url}/realtime", protocols=["realtime", "x.psk_nobody"])
        assert "psk_" not in str(server.headers[0])


async def test_a_scan_that_fails_closed_lets_nothing_up() -> None:
    """For each message separately: the next one may be scanned again."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        endpoint.scanner.cause = "timeout"
        await socket.send_str(item("Hello."))
        assert json.loads(await socket.receive_str())["status"] == 503
        endpoint.scanner.cause = None
        await socket.send_str(item("Hello."))
        assert json.loads(await socket.receive_str())["type"] == "heard"
        assert len(server.heard) == 1


async def test_either_sides_end_is_the_others() -> None:
    """With its code."""
    async with behind() as (server, endpoint):
        async with endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
            await socket.send_str('{"type": "end"}')
            assert (await socket.receive()).type is WSMsgType.CLOSE
            assert socket.close_code == 4001
        async with endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
            await socket.close(code=4002)
        await eventually(lambda: len(server.closed) == 2)
        assert server.closed[1] == 4002


async def test_a_drain_tells_the_client_that_it_goes() -> None:
    """With the code that makes libraries reconnect; the upstream's websocket is closed, too."""
    async with behind() as (server, endpoint), endpoint.session.ws_connect(f"{endpoint.url}/realtime") as socket:
        await socket.send_str(item("Hello."))
        await socket.receive_str()
        await socket.receive_bytes()
        closing = asyncio.ensure_future(endpoint.site.close(0.2))
        assert (await socket.receive(timeout=10)).type is WSMsgType.CLOSE
        assert socket.close_code == 1001
        await closing
        await eventually(lambda: bool(server.closed))


async def test_a_key_of_ours_is_the_only_one_that_goes_up(tmp_path: Path) -> None:
    """In a header or the subprotocols, as browsers send it."""
    (tmp_path / "key").write_text("ours")
    question = ["realtime", "openai-insecure-api-key.theirs"]
    async with behind(upstream={"api_key_file": tmp_path / "key"}) as (server, endpoint):
        fields = {"Authorization": "Bearer theirs"}
        async with endpoint.session.ws_connect(
            f"{endpoint.url}/realtime", protocols=question, headers=fields
        ) as socket:
            assert socket.protocol == "realtime"
    assert server.headers[0]["Authorization"] == "Bearer ours"
    assert "theirs" not in str(server.headers[0])


async def test_without_the_setting_it_is_426() -> None:
    """Clients can fall back to HTTP."""
    async with run_proxy() as endpoint:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await endpoint.session.ws_connect(f"{endpoint.url}/realtime")
    assert raised.value.status == 426


async def test_an_upstream_that_is_not_there_is_an_answer_over_http() -> None:
    """The client's handshake completes only after the upstream's."""
    async with run_proxy("http://127.0.0.1:9", inline={"websockets": True}) as endpoint:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await endpoint.session.ws_connect(f"{endpoint.url}/realtime")
    assert raised.value.status == 502


async def test_an_upstream_that_is_silent_or_leads_elsewhere_is_an_answer_over_http() -> None:
    """A handshake has the time of a request, and a redirect could lead credentials to another host."""

    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        raise AssertionError

    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/")

    app = web.Application()
    app.add_routes([web.get("/v1/realtime", silent), web.get("/v1/responses", elsewhere)])
    terms = {"connect_timeout": 0.2, "first_byte_timeout": 0.2}
    async with TestServer(app) as running:
        url = str(running.make_url("/")).rstrip("/")
        async with run_proxy(url, inline={"websockets": True}, upstream=terms) as endpoint:
            for path, status in (("realtime", 504), ("responses", 502)):
                with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
                    await endpoint.session.ws_connect(f"{endpoint.url}/{path}")
                assert raised.value.status == status


async def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    """The upstream's websocket is closed with it."""
    async with behind() as (server, endpoint):
        socket = await endpoint.session.ws_connect(f"{endpoint.url}/realtime")
        await socket.send_str(item("Hello."))
        await socket.receive_str()
        assert socket._response.connection is not None
        socket._response.connection.transport.abort()
        await eventually(lambda: bool(server.closed), 5)
        await asyncio.sleep(0)


@pytest.mark.parametrize("setting", [{"responses": "flag"}, {"pii": "redact"}])
def test_settings_that_would_not_hold_there_are_refused(setting: dict[str, str]) -> None:
    """Settings that scan responses are rejected with websockets."""
    with pytest.raises(ValueError, match=r"inline\.websockets"):
        config.Settings.model_validate({"inline": {"websockets": True}, **setting})
