"""Twin of proxy/handler.py: scan, then forward or refuse; verdict headers and one decision for every request."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from inline_proxy import ATTACK, CHAT, EVIL, eventually, post, run_proxy
from recording import recording, respond, stream
from support import free_port

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth, Settings
from sidecar.limits import MemoryLimiter
from sidecar.limits.memory_budget import Reservation
from sidecar.observability.metrics import REGISTRY
from sidecar.server.middleware import Gatekeeper
from sidecar.storage import Store
from sidecar.types import Segment

ANSWER = b'{ "id": "x", "unknown": 1.50, "choices": [] }'
BLOCKED = ("block", "0.9", "prompt_injection")
ALLOWED = ("allow", "0.0", "")
REASON = "a message of the user (messages.0.content) looks like an order to the assistant; decision"


async def test_a_benign_request_and_its_answer_pass_byte_for_byte() -> None:
    """Neither body nor response is reserialized; unknown fields and whitespace survive."""
    body = b'{"model": "m",  "messages":[{"role":"user","content":"hi \\u00e9"}], "x_unknown": 1.0}'
    script = respond(ANSWER, "200 OK", "application/json", "openai-version: 7")
    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(body, Content_Type="application/json")
    assert upstream.bodies == [body]
    assert (reply.status, reply.body, reply.headers["openai-version"]) == (200, ANSWER, "7")
    assert reply.verdict == ALLOWED
    assert (endpoint.decision.action, endpoint.decision.status, endpoint.decision.model) == ("allow", 200, "m")
    assert reply.headers["x-sidecar-decision"] == endpoint.decision.id


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_attack_is_refused_before_anything_is_forwarded(streaming: bool) -> None:
    """400 in OpenAI's format, not retried, with path and verdict; no connection to the upstream is opened."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        reply = await endpoint.ask(EVIL | {"stream": streaming})
    assert upstream.connections == 0
    assert (reply.status, reply.headers["x-should-retry"], reply.verdict) == (400, "false", BLOCKED)
    sidecar = reply.error.pop("sidecar", None) or json.loads(reply.body)["error"]["sidecar"]
    assert {name: reply.error[name] for name in ("type", "code", "param")} == {
        "type": "invalid_request_error",
        "code": "content_filter",
        "param": "messages.0.content",
    }
    assert sidecar == {
        "decision": reply.headers["x-sidecar-decision"],
        "path": "messages.0.content",
        "risk_score": 0.9,
        "threats": ["prompt_injection"],
        "layer_used": "rules",
    }
    assert (endpoint.decision.action, endpoint.decision.status) == ("block", 400)


async def test_refused_text_is_neither_in_the_response_nor_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither response nor log quotes the prompt."""
    async with run_proxy() as endpoint:
        reply = await endpoint.ask(EVIL)
    assert b"EVIL" not in reply.body
    assert "EVIL" not in "".join(capfd.readouterr())
    assert endpoint.decision.text == ""


async def test_monitor_forwards_and_reports_the_enforced_action() -> None:
    """The record holds the verdict and the action that was taken."""
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url, mode="monitor") as endpoint:
        reply = await endpoint.ask(EVIL)
        clean = await endpoint.ask(CHAT)
    assert (reply.status, reply.verdict) == (200, ("monitor", "0.9", "prompt_injection"))
    assert clean.verdict == ALLOWED
    assert [answer.headers["x-sidecar-enforce"] for answer in (reply, clean)] == ["block", "allow"]
    assert [str(d.verdict.action) for d in endpoint.decision_log.decisions] == ["block", "allow"]
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        ("deadline", 503, "scanner_unavailable"),
        ("error", 503, "scanner_unavailable"),
        ("overload", 503, "scanner_unavailable"),
        ("too_long", 413, "invalid_body"),
    ],
)
async def test_unscannable_requests_are_refused_when_closed(cause: str, status: int, code: str) -> None:
    """With Retry-After where a retry can help; nothing is forwarded."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = cause
        reply = await endpoint.ask(CHAT)
    assert (upstream.connections, reply.status, reply.error["code"]) == (0, status, code)
    assert ("Retry-After" in reply.headers) == (status == 503)
    assert (reply.verdict, "x-sidecar-unscanned" in reply.headers) == (("block", "0.0", ""), False)
    assert (endpoint.decision.verdict.failure, endpoint.decision.action, endpoint.decision.unscanned) == (
        cause,
        "block",
        None,
    )


@pytest.mark.parametrize("mode", ["open", "monitor"])
async def test_unscannable_requests_are_forwarded_and_marked_when_open(mode: str) -> None:
    """The cause is in the response, the decision and a counter."""
    counter = ("sidecar_unscanned_forward_total", {"cause": "deadline"})
    before = REGISTRY.get_sample_value(*counter) or 0.0
    settings = {"mode": "monitor"} if mode == "monitor" else {}
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        endpoint.scanner.cause, endpoint.scanner.opens = "deadline", mode == "open"
        reply = await endpoint.ask(CHAT)
    assert (reply.status, reply.headers["x-sidecar-unscanned"], len(upstream.requests)) == (200, "deadline", 1)
    assert reply.headers.get("x-sidecar-enforce") == ("deadline" if mode == "monitor" else None)
    assert reply.headers["x-sidecar-action"] == ("monitor" if mode == "monitor" else "allow")
    assert endpoint.decision.unscanned == "deadline"
    assert REGISTRY.get_sample_value(*counter) == before + 1


async def test_routes_without_text_pass() -> None:
    """A list of models has no text to scan, and gets an empty verdict."""
    async with run_proxy() as endpoint:
        reply = await endpoint.ask(None, "/v1/models", "GET")
    assert (reply.status, reply.verdict, endpoint.scanner.scanned) == (200, ALLOWED, [])
    assert (endpoint.decision.segments, endpoint.decision.unscanned) == (0, None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/unheard/of", 403),
        ("PUT", "/v1/chat/completions", 403),
        ("GET", "/v1/realtime", 426),
        ("GET", "/v1/responses", 426),
        ("POST", "/v1/chat%2Fcompletions", 400),
        ("POST", "//v1/chat/completions", 400),
        ("POST", "/v1/x/../chat/completions", 400),
        ("POST", "/V1/chat/completions", 400),
        ("POST", "/v1/chat/completions/", 400),
        ("POST", "http://elsewhere/v1/chat/completions", 400),
    ],
)
async def test_other_routes_and_other_spellings_are_refused(method: str, path: str, status: int) -> None:
    """Paths are not normalized, and nothing is forwarded."""
    body = json.dumps(CHAT).encode()
    request_bytes = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    )
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        actual = await endpoint.talk(request_bytes + body)
    assert int(actual.split(b" ")[1]) == status
    assert (upstream.connections, endpoint.decision.status, endpoint.decision.action) == (0, status, "block")


async def test_an_upgrade_to_a_socket_is_refused_on_every_route() -> None:
    """Websocket messages could not be scanned."""
    upgrade = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n"
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        actual = await endpoint.talk(upgrade, until=b"}}")
    assert (actual.split(b" ")[1], upstream.connections) == (b"426", 0)
    assert b"\r\nUpgrade: HTTP/1.1\r\n" in actual


@pytest.mark.parametrize("line", ["POST /v1/responses/resp_1/cancel", "DELETE /v1/responses/resp_1"])
@pytest.mark.parametrize("body", [b"{}", b" {} ", b""])
async def test_an_empty_object_is_no_body(line: str, body: bytes) -> None:
    """Some libraries send `{}` where there is no body."""
    head = f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url) as endpoint:
        assert (await endpoint.talk(head.encode() + body, until=b"\r\n\r\n")).split(b" ")[1] == b"200"


async def test_the_query_is_forwarded_unchanged() -> None:
    """For example Azure's api-version."""
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url) as endpoint:
        assert (await endpoint.ask(CHAT, "/v1/chat/completions?api-version=2024&x=%2e%2e")).status == 200
        assert (await endpoint.ask(EVIL, "/v1/chat/completions?stream=true")).status == 400
    assert [received.target for received in upstream.requests] == ["/v1/chat/completions?api-version=2024&x=%2e%2e"]


async def test_every_source_is_scanned_or_named_as_unscanned() -> None:
    """A system prompt that `scan.sources` excludes is forwarded and named as unscanned."""
    body = {"messages": [{"role": "system", "content": ATTACK}, {"role": "user", "content": "hi"}]}
    async with run_proxy() as endpoint:
        assert (await endpoint.ask(body)).status == 400
        assert endpoint.scanner.scanned[0].system_prompt == ATTACK
    async with run_proxy(scan={"sources": {"application": {"layers": []}}}) as endpoint:
        reply = await endpoint.ask(body)
    assert (reply.status, reply.headers["x-sidecar-unscanned"]) == (200, "application")
    assert endpoint.decision.unscanned == "application"


async def test_an_exception_for_a_tool_sees_which_tool_gave_a_result() -> None:
    """The scan gets the name of the tool whose result a turn is."""
    call = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "glossary"}}]}
    body = {"messages": [call, {"role": "tool", "tool_call_id": "a", "content": "hi"}]}
    terms = {"rules": ["override/ignore-instructions"], "tool": "glossary", "until": "2999-01-01", "reason": "lessons"}
    async with run_proxy(exceptions=[terms]) as endpoint:
        await endpoint.ask(body)
        assert endpoint.scanner.scanned[0].tools == {"messages.1": "glossary"}


async def test_a_payload_split_over_messages_is_detected() -> None:
    """The last turns are also scanned joined."""
    parts = [{"type": "text", "text": "E"}, {"type": "text", "text": "VIL"}]
    async with run_proxy() as endpoint:
        await endpoint.ask({"messages": [{"role": "user", "content": parts}]})
    assert len(endpoint.scanner.texts) > 2


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "429 Slow Down", "500 Oops", "301 Moved"])
async def test_the_upstreams_own_errors_pass_untouched(status: str) -> None:
    """Body and headers are unchanged; the verdict headers say `allow`."""
    script = respond(b'{"error":{"code":"theirs"}}', status, "application/json", "Retry-After: 7", "x-request-id: r1")
    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        endpoint.session._auto_decompress = False
        async with endpoint.session.post(
            f"{endpoint.url}/chat/completions", json=CHAT, allow_redirects=False
        ) as actual:
            body = await actual.read()
    assert (actual.status, body) == (int(status[:3]), b'{"error":{"code":"theirs"}}')
    assert (actual.headers["Retry-After"], actual.headers["x-request-id"], actual.reason) == ("7", "r1", status[4:])
    assert actual.headers["x-sidecar-action"] == "allow"
    assert endpoint.decision.status == actual.status


async def test_an_unreachable_upstream_is_502() -> None:
    """The request was allowed; the error names the upstream."""
    async with run_proxy(f"http://127.0.0.1:{free_port()}") as endpoint:
        reply = await endpoint.ask(CHAT)
    assert (reply.status, reply.error["code"], reply.verdict) == (502, "upstream_error", ALLOWED)
    assert (endpoint.decision.status, endpoint.decision.action) == (502, "allow")


async def test_a_silent_upstream_is_504_and_disconnected() -> None:
    """After `first_byte_timeout`."""
    async with recording(stream([], end="stall")) as upstream, run_proxy(upstream.url) as endpoint:
        upstream.script = silent
        reply = await endpoint.ask(CHAT)
        async with asyncio.timeout(1):
            await upstream.disconnected.wait()
    assert (reply.status, reply.error["code"]) == (504, "upstream_error")


async def silent(_received: object, _writer: object) -> None:
    """Never answer."""
    await asyncio.sleep(3600)


async def test_a_client_that_leaves_ends_the_scan() -> None:
    """Within a second; the decision has status 499."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        endpoint.scanner.busy = asyncio.Event()
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(CHAT))
        await eventually(lambda: endpoint.scanner.scanned)
        writer.close()
        async with asyncio.timeout(1):
            await endpoint.scanner.cancelled.wait()
        await eventually(lambda: endpoint.decision_log.decisions)
    assert (endpoint.decision.status, upstream.connections) == (499, 0)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_leaves_ends_the_upstream_call(begun: bool) -> None:
    """Before the first byte and in mid-stream, so that the upstream stops working."""
    script = stream([b"data: 1\n\n"], end="stall") if begun else silent
    patient = {"first_byte_timeout": 30.0, "idle_timeout": 30.0}
    async with recording(script) as upstream, run_proxy(upstream.url, upstream=patient) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(CHAT))
        if begun:
            await reader.readuntil(b"data: 1\n\n")
        await eventually(lambda: upstream.requests)
        writer.close()
        async with asyncio.timeout(1):
            await upstream.disconnected.wait()
        await eventually(lambda: endpoint.decision_log.decisions)
    assert endpoint.decision.status == (200 if begun else 499)


async def test_a_required_scan_log_that_fails_stops_traffic() -> None:
    """`log.required`: requests that cannot be recorded are not forwarded."""
    async with recording() as upstream, run_proxy(upstream.url) as endpoint:
        endpoint.decision_log.broken = True
        reply = await endpoint.ask(CHAT)
    assert (reply.status, upstream.connections, "Retry-After" in reply.headers) == (503, 0, True)


@pytest.mark.parametrize(("style", "streaming"), [("error", False), ("refusal", False), ("refusal", True)])
async def test_styles_of_a_block_on_a_route_without_answers_in_text(style: str, streaming: bool) -> None:
    """Embeddings have no text responses, so every style is an error."""
    async with run_proxy(block={"style": style}) as endpoint:
        reply = await endpoint.ask({"input": ATTACK, "model": "m", "stream": streaming}, "/v1/embeddings")
    assert (reply.status, reply.error["code"]) == (400, "content_filter")


async def test_a_refusal_is_an_answer_of_the_api_itself() -> None:
    """200, with the verdict in the headers and the decision recorded as a block."""
    async with (
        recording() as upstream,
        run_proxy(upstream.url, block={"style": "refusal", "message": "No."}) as endpoint,
    ):
        reply = await endpoint.ask(EVIL)
        chunks = await endpoint.ask(EVIL | {"stream": True})
    choice = json.loads(reply.body)["choices"][0]
    assert (reply.status, choice["finish_reason"]) == (200, "content_filter")
    assert choice["message"]["content"] == f"No: {REASON} {reply.headers['x-sidecar-decision']}."
    assert (chunks.headers["Content-Type"], chunks.body[-14:]) == (
        "text/event-stream; charset=utf-8",
        b"data: [DONE]\n\n",
    )
    assert reply.verdict == chunks.verdict == BLOCKED
    assert [d.action for d in endpoint.decision_log.decisions] == ["block", "block"]
    assert upstream.connections == 0


async def test_status_and_message_of_a_block_are_the_operators() -> None:
    """The status can be any that clients do not retry."""
    async with run_proxy(block={"status": 451, "message": "Ask Ann."}) as endpoint:
        reply = await endpoint.ask(EVIL)
    assert (reply.status, reply.error["code"]) == (451, "content_filter")
    assert reply.error["message"] == f"Ask Ann: {REASON} {reply.headers['x-sidecar-decision']}."


async def test_the_messages_api_gets_its_own_envelope() -> None:
    """For blocks, errors, and refusals in its own format."""
    async with run_proxy() as endpoint:
        blocked = await endpoint.ask(EVIL, "/v1/messages")
        broken = await endpoint.ask(b"{", "/v1/messages", Content_Type="application/json")
        passed = await endpoint.ask(CHAT, "/v1/messages")
    assert (blocked.status, json.loads(blocked.body)["type"]) == (400, "error")
    assert (blocked.error["type"], blocked.error["sidecar"]["risk_score"]) == ("invalid_request_error", 0.9)
    assert (broken.status, broken.error["type"]) == (400, "invalid_request_error")
    assert json.loads(passed.body)["content"][0]["text"] == CHAT["messages"][0]["content"]


@pytest.fixture
async def keyring(tmp_path: Path) -> AsyncIterator[KeyRing]:
    """A key ring on an empty store."""
    store = await Store.open(f"sqlite:///{tmp_path}/keys.db")
    yield KeyRing(store, Auth())
    await store.close()


@pytest.mark.parametrize("name", ["X-API-Key", "Authorization", "Api-Key"])
async def test_sidecar_keys_are_never_forwarded(keyring: KeyRing, name: str) -> None:
    """It authenticates, is recorded by id, and other credentials of the client are forwarded."""
    value, key = await create(keyring)
    gatekeeper = Gatekeeper(keyring, MemoryLimiter(), Settings())
    request_bytes = f"Bearer {value}" if name == "Authorization" else value
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url, gatekeeper) as endpoint:
        reply = await endpoint.ask(CHAT, **{name: request_bytes, "X_Other": "kept"})
    assert (reply.status, upstream.requests[0].header("x-other")) == (200, "kept")
    assert b"psk_" not in upstream.requests[0].head
    assert endpoint.decision.key_id == key


async def create(keyring: KeyRing) -> tuple[str, str]:
    """Value and id of a new key."""
    key, value = await keyring.create("test")
    return value, key.id


async def test_a_bad_key_is_401_even_where_keys_are_optional(keyring: KeyRing) -> None:
    """Authentication never fails open, and unauthenticated requests are not recorded."""
    gatekeeper = Gatekeeper(keyring, MemoryLimiter(), Settings())
    async with recording() as upstream, run_proxy(upstream.url, gatekeeper, mode="monitor") as endpoint:
        reply = await endpoint.ask(CHAT, X_API_Key="psk_wrong")
    assert (reply.status, reply.error["code"], upstream.connections) == (401, "invalid_api_key", 0)
    assert endpoint.decision_log.decisions == []


async def test_keys_can_be_required(keyring: KeyRing) -> None:
    """`auth.inline: required`: a request without one is refused, whatever else it carries."""
    required = {"auth": {"inline": "required"}}
    gatekeeper = Gatekeeper(keyring, MemoryLimiter(), Settings.model_validate(required))
    async with recording() as upstream, run_proxy(upstream.url, gatekeeper, **required) as endpoint:
        reply = await endpoint.ask(CHAT, Authorization="Bearer sk-upstream")
    assert (reply.status, upstream.connections) == (401, 0)


async def test_only_the_sidecar_needs_the_upstream_key(tmp_path: Path) -> None:
    """Clients' credentials are replaced; Azure's and Anthropic's headers get the value without `Bearer`."""
    (tmp_path / "key").write_text("sk-real\n")
    settings = {"api_key_file": tmp_path / "key"}
    async with recording(respond(ANSWER)) as upstream, run_proxy(upstream.url, upstream=settings) as endpoint:
        await endpoint.ask(CHAT, Authorization="Bearer sk-client")
        await endpoint.ask(CHAT, "/openai/deployments/x/chat/completions?api-version=1")
        await endpoint.ask(CHAT, "/v1/messages")
    assert [received.header("authorization") for received in upstream.requests] == ["Bearer sk-real", None, None]
    assert upstream.requests[1].header("api-key") == upstream.requests[2].header("x-api-key") == "sk-real"


async def test_an_address_without_a_key_has_a_rate_of_its_own() -> None:
    """Beyond it the address gets 429, another and loopback do not, and nothing of that is recorded."""
    bounds = {"address_rate": "1/hour", "address_burst": 2}
    async with run_proxy(limits=bounds, listen={"trusted_proxies": ["127.0.0.1"]}) as endpoint:
        addresses = ["203.0.113.1"] * 3 + ["203.0.113.2", "127.0.0.1", "127.0.0.1", "127.0.0.1"]
        replies = [await endpoint.ask(CHAT, X_Forwarded_For=address) for address in addresses]
        assert [reply.status for reply in replies] == [200, 200, 429, 200, 200, 200, 200]
        assert int(replies[2].headers["Retry-After"]) > 3000
        assert len(endpoint.decision_log.decisions) == 6
    async with run_proxy(limits=bounds) as endpoint:
        assert [(await endpoint.ask(CHAT)).status for _ in range(4)] == [200] * 4


async def test_a_client_has_a_budget_of_bytes_even_on_loopback() -> None:
    """Large bodies beyond it get 429 before they are scanned; small ones pass."""
    large = CHAT | {"user": "word " * 8_000}
    async with run_proxy(limits={"bytes": "100kB/hour"}) as endpoint:
        assert [(await endpoint.ask(large)).status for _ in range(3)] == [200, 200, 429]
        assert len(endpoint.scanner.scanned) == 2
        assert (await endpoint.ask(CHAT)).status == 200


@pytest.mark.parametrize("mode", ["off", "flag"])
async def test_the_memory_of_a_request_that_is_read_later_stays_reserved(mode: str) -> None:
    """Until its response has passed: what a tool call in it is looked up in is the request."""
    body = CHAT | {"stream": True, "user": "word " * 8_000}
    settings: dict[str, Any] = {"actions": {"mode": mode}}
    async with (
        recording(stream([b"data: {}\n\n"], end="stall")) as upstream,
        run_proxy(upstream.url, **settings) as endpoint,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(body))
        await reader.readuntil(b"data: {}\n\n")
        reserved = sum(held.size for held in gc.get_objects() if type(held) is Reservation)
        assert (reserved > 40_000) is (mode == "flag")
        writer.close()


async def test_a_stream_releases_the_memory_of_its_request() -> None:
    """The request's memory is released while its response streams."""
    body = CHAT | {"stream": True, "user": "a mark to find again"}
    async with recording(stream([b"data: 1\n\n"], end="stall")) as upstream, run_proxy(upstream.url) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(body))
        await reader.readuntil(b"data: 1\n\n")
        endpoint.scanner.scanned.clear()
        gc.collect()
        saved = [results for results in gc.get_objects() if type(results) is Segment and results.text == body["user"]]
        writer.close()
    assert saved == []
