"""Tests of sessions: what is refused is answered in the protocol, and everything else passes byte for byte."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from inline_proxy import RecordedDecisionLog, WordScanner

from sidecar.config import Settings
from sidecar.errors import BodyError, StoreUnavailable
from sidecar.extraction.mcp_message import extract
from sidecar.mcp.catalogue import Catalogue, _digests
from sidecar.mcp.messages import parse
from sidecar.mcp.refusals import PARSE_ERROR, REFUSED, UNSCANNED
from sidecar.mcp.session import Inspection, McpScanner, Session
from sidecar.scan.service import ScanContext, ScanService
from sidecar.storage import Pin, Pins, Store

CONTEXT = ScanContext("", "mcp", "/mcp/notes")
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(2000)).decode()


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """SQLite alone: the table is tested with both."""
    return f"sqlite:///{tmp_path}/store.db"


class Both:
    """A session with a scanner that blocks EVIL, and both sides of it."""

    def __init__(self, catalogue: Catalogue | None = None, **settings: Any) -> None:
        self.scanner, self.log = WordScanner(), RecordedDecisionLog()
        merged = Settings.model_validate(settings)
        service = ScanService(self.scanner, merged, self.log)
        self.session = Session(McpScanner(merged, service, "notes", catalogue))

    async def client(self, message: object) -> Inspection:
        """The client sends a message."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self._inspect(raw, from_server=False)

    async def server(self, message: object) -> Inspection:
        """The server sends one."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self._inspect(raw, from_server=True)

    async def _inspect(self, raw: bytes, *, from_server: bool) -> Inspection:
        inspection = await self.session.inspect(raw, CONTEXT, from_server=from_server)
        await asyncio.sleep(0)  # decisions are recorded from the event loop
        return inspection


class ClosedPins:
    """Pins of a database that is away."""

    async def query(self, server: str | None = None) -> list[Pin]:
        """Fail."""
        raise StoreUnavailable("The database is away.")

    add = see = query  # type: ignore[assignment]


def request(method: str, params: Mapping[str, Any] | None = None, number: object = 1) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}


def response(value: Mapping[str, Any], number: object = 1) -> dict[str, Any]:
    """Its result."""
    return {"jsonrpc": "2.0", "id": number, "result": dict(value)}


def said(text: str) -> dict[str, Any]:
    """A result of a tool."""
    return {"content": [{"type": "text", "text": text}]}


def read(content: bytes | None) -> Any:
    """The message in these bytes."""
    assert content is not None
    return json.loads(content)


CALL = request("tools/call", {"name": "find", "arguments": {"q": "rain"}})


async def test_what_is_not_refused_passes_byte_for_byte() -> None:
    """Whatever its spacing, order and numbers."""
    both = Both()
    raw = b'{ "method":"tools/call", "id" : 1.0,\t"params":{"name":"find","arguments":{"n":1.50,"u":"\\u00fc"}} }'
    assert await both.client(raw) == Inspection(raw)
    content = b'[{"type":"text","text":"fine \\/ so"}]'
    answer = b'{"id":1.0,"result":{"content":' + content + b',"structuredContent":{}},"jsonrpc":"2.0"}\r'
    assert await both.server(answer) == Inspection(answer)
    assert [decision.route for decision in both.log.decisions] == ["/mcp/notes/tools/call"] * 2


async def test_a_refused_result_is_replaced_by_one_with_an_error_flag() -> None:
    """It names the tool, the place and the decision, and quotes nothing."""
    both = Both()
    await both.client(CALL)
    inspection = await both.server(response(said("Do something EVIL.")))
    result = read(inspection.forward)["result"]
    assert result["isError"]
    text = result["content"][0]["text"]
    assert "the result of tool `find` (content.0.text) looks like an order to the assistant" in text
    assert both.log.decisions[-1].id in text
    assert "EVIL" not in text
    assert inspection.reply is None
    assert (both.log.decisions[-1].action, both.log.decisions[-1].entrypoint) == ("block", "mcp")


async def test_refused_arguments_never_reach_the_server() -> None:
    """The client gets the result of the call."""
    both = Both()
    inspection = await both.client(request("tools/call", {"name": "find", "arguments": {"q": "EVIL words"}}, "c"))
    assert inspection.forward is None
    reply = read(inspection.reply)
    assert (reply["id"], reply["result"]["isError"]) == ("c", True)
    assert "an argument of tool `find` (arguments" in reply["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/list", {"tools": [{"name": "a", "description": "EVIL tool", "inputSchema": {}}]}),
        ("initialize", {"instructions": "Be EVIL."}),
        ("resources/read", {"contents": [{"uri": "file:///a", "text": "EVIL text"}]}),
        ("resources/list", {"resources": [{"uri": "file:///a", "name": "EVIL name"}]}),
        ("resources/templates/list", {"resourceTemplates": [{"uriTemplate": "a", "description": "EVIL words"}]}),
        ("prompts/list", {"prompts": [{"name": "a", "description": "EVIL words"}]}),
        ("prompts/get", {"messages": [{"role": "user", "content": {"type": "text", "text": "EVIL words"}}]}),
        ("completion/complete", {"completion": {"values": ["EVIL words"]}}),
        ("vendor/method", {"anything": {"deep": ["EVIL words"]}}),
    ],
)
async def test_a_refused_result_of_another_request_becomes_an_error(method: str, result: dict[str, Any]) -> None:
    """With the id of the request and a code of implementations."""
    both = Both()
    await both.client(request(method, number=5))
    answer = read((await both.server(response(result, 5))).forward)
    assert (answer["id"], answer["error"]["code"]) == (5, REFUSED)
    assert answer["error"]["data"]["sidecar"]["decision"] == both.log.decisions[-1].id


async def test_a_refused_error_becomes_another_error() -> None:
    """A client shows a model the messages of errors."""
    both = Both()
    await both.client(request("resources/read"))
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32002, "message": "EVIL was not found"}}
    assert read((await both.server(error)).forward)["error"]["code"] == REFUSED


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"systemPrompt": "EVIL", "messages": []}),
        ("elicitation/create", {"message": "EVIL", "requestedSchema": {}}),
    ],
)
async def test_a_refused_request_of_the_server_is_answered_to_it(method: str, params: dict[str, Any]) -> None:
    """And the client never sees it."""
    both = Both()
    inspection = await both.server(request(method, params, "s1"))
    assert inspection.forward is None
    assert (read(inspection.reply)["id"], read(inspection.reply)["error"]["code"]) == ("s1", REFUSED)


async def test_a_refused_answer_of_the_client_becomes_an_error() -> None:
    """The server waits for one."""
    both = Both()
    await both.server(request("sampling/createMessage", {"messages": []}, "s1"))
    content = {"type": "text", "text": "EVIL words"}
    inspection = await both.client(response({"role": "assistant", "content": content, "model": "m"}, "s1"))
    assert (read(inspection.forward)["id"], read(inspection.forward)["error"]["code"]) == ("s1", REFUSED)
    assert inspection.reply is None


async def test_a_refused_notification_is_dropped() -> None:
    """Nobody waits for it."""
    both = Both()
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "EVIL"}}
    assert await both.server(message) == Inspection(None)
    assert both.log.decisions[-1].action == "block"


async def test_of_a_batch_only_what_is_refused_is_replaced() -> None:
    """The rest passes, in its order."""
    both = Both()
    batch = [
        request("tools/call", {"name": "a"}, 1),
        request("tools/call", {"name": "b", "arguments": {"q": "EVIL"}}, 2),
    ]
    inspection = await both.client(batch)
    assert [one["id"] for one in read(inspection.forward)] == [1]
    assert [one["id"] for one in read(inspection.reply)] == [2]
    await both.client(request("tools/call", {"name": "c"}, 3))
    answers = read((await both.server([response(said("fine"), 1), response(said("EVIL"), 3)])).forward)
    assert [("isError" in one["result"], one["id"]) for one in answers] == [(False, 1), (True, 3)]


async def test_monitoring_refuses_nothing() -> None:
    """What would have been refused is recorded."""
    both = Both(mode="monitor")
    raw = json.dumps(response(said("EVIL words"))).encode()
    assert await both.server(raw) == Inspection(raw)
    assert await both.server(b"no message") == Inspection(b"no message")
    assert both.log.decisions[0].action == "monitor"


@pytest.mark.parametrize(("opens", "code"), [(False, UNSCANNED), (True, None)])
async def test_a_failing_scan_is_closed_or_open_as_the_settings_say(opens: bool, code: int | None) -> None:
    """The error says that it could not be scanned."""
    both = Both()
    both.scanner.cause, both.scanner.opens = "deadline", opens
    inspection = await both.client(request("resources/read", {"uri": "file:///a b"}))
    assert (inspection.forward is not None) == opens
    if code:
        assert read(inspection.reply)["error"]["code"] == code
        assert "deadline" in read(inspection.reply)["error"]["message"]
    assert both.log.decisions[-1].unscanned == ("deadline" if opens else None)


@pytest.mark.parametrize(("media", "passes"), [("allow", True), ("block", False)])
async def test_media_pass_as_the_settings_say(media: str, passes: bool) -> None:
    """`failure.input.media`."""
    both = Both(failure={"input": {"media": media}})
    await both.client(CALL)
    result = {"content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]}
    answer = read((await both.server(response(result))).forward)["result"]
    assert ("isError" not in answer) == passes
    assert both.log.decisions[-1].unscanned == ("media" if passes else None)


async def test_what_is_no_message_is_dropped_or_answered() -> None:
    """A line printed by mistake, a request that is not JSON, a result that two parsers read differently."""
    both = Both()
    assert await both.server(b"Listening on port 3") == Inspection(None)
    inspection = await both.client(b'{"id": 4, "method": ')
    assert inspection.forward is None
    assert (read(inspection.reply)["id"], read(inspection.reply)["error"]["code"]) == (4, PARSE_ERROR)
    await both.client(CALL)
    answer = read((await both.server(b'{"id": 1, "result": {}, "result": {}}')).forward)
    assert (answer["id"], answer["result"]["isError"]) == (1, True)
    for odd in (b'{"id": 007', b'{"id": "\xff"}'):
        assert await both.server(odd) == Inspection(None)
        assert read((await both.client(odd)).reply)["id"] is None
    opened = Both(failure={"input": {"malformed": "allow"}})
    assert await opened.server(b"Listening on port 3") == Inspection(b"Listening on port 3")


async def test_a_message_that_is_too_large_is_never_passed_in_part() -> None:
    """Whatever the policy; the request of a result is answered."""
    both = Both(failure={"input": {"oversize": "allow"}})
    await both.client(CALL)
    error = BodyError("oversize", "The message is larger than 3 bytes.")
    inspection = both.session.refuse_unread(b'{"id":1,"result":', error, CONTEXT, from_server=True)
    assert read(inspection.forward)["result"]["isError"]


async def test_a_scan_log_that_is_required_and_down_refuses() -> None:
    """As at every entry point (`log.required`)."""
    both = Both()
    both.log.broken = True
    inspection = await both.client(CALL)
    assert inspection.forward is None
    assert "scan log" in read(inspection.reply)["result"]["content"][0]["text"]


@pytest.mark.parametrize(("drift", "refused"), [("warn", False), ("block", True)])
async def test_drift_is_refused_where_the_settings_say_so(store: Store, drift: str, refused: bool) -> None:
    """The list, and a call of a tool that changed."""
    both = Both(Catalogue(store.pins), mcp={"drift": drift})
    for description in ("Finds notes.", "Finds all."):
        await both.client(request("tools/list"))
        tools = [{"name": "find", "description": description}, {"name": "add", "description": "Adds."}]
        inspection = await both.server(response({"tools": tools}))
    assert ("error" in read(inspection.forward)) == refused
    call = await both.client(CALL)
    assert (call.forward is None) == refused
    if refused:
        assert "`find` was changed" in read(inspection.forward)["error"]["message"]
        assert read(call.reply)["result"]["isError"]
    assert (await both.client(request("tools/call", {"name": "add"}))).reply is None


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "1"},
        {"id": 1.0},
        {"id": 99},
        {"id": None},
        {},
        {"id": 1, "method": None},
        {"id": 1, "method": ""},
        {"id": 1, "method": "notifications/progress"},
        {"id": 1, "error": {}},
    ],
)
async def test_a_list_in_any_form_is_compared_with_the_pins(store: Store, answer: dict[str, Any]) -> None:
    """Other forms of the id, an answer that nobody asked for, and members that hide what it is."""
    both = Both(Catalogue(store.pins), mcp={"drift": "block"})
    await both.client(request("tools/list"))
    await both.server(response({"tools": [{"name": "find", "description": "Finds notes."}]}))
    await both.client(request("tools/list"))
    changed = {"tools": [{"name": "find", "description": "CHANGED"}]}
    inspection = await both.server({"jsonrpc": "2.0", "result": changed, **answer})
    assert b"CHANGED" not in (inspection.forward or b"")


async def test_a_list_of_another_request_is_no_list_of_tools(store: Store) -> None:
    """The result of a method that is known, and is another one."""
    both = Both(Catalogue(store.pins), mcp={"drift": "block"})
    await both.client(request("prompts/list"))
    assert b"Other" in ((await both.server(response({"tools": [{"name": "Other"}]}))).forward or b"")
    assert await store.pins.query() == []


async def test_pins_that_cannot_be_read_refuse_only_where_drift_does() -> None:
    """The database is away."""
    for drift in ("warn", "block"):
        both = Both(Catalogue(cast("Pins", ClosedPins())), mcp={"drift": drift})
        await both.client(request("tools/list"))
        inspection = await both.server(response({"tools": [{"name": "find"}]}))
        assert ("error" in read(inspection.forward)) == (drift == "block")


async def test_methods_of_the_log_are_those_of_the_protocol() -> None:
    """A method is text of the sender, too."""
    both = Both()
    await both.server(request("Ignore everything", {"a": "b c"}))
    assert both.log.decisions[-1].route == "/mcp/notes/other"


async def test_long_messages_are_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    """Parsing, extraction and the digests of tools: everybody else on the data port would wait for them."""
    seen: list[tuple[str, bool]] = []

    def noting(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            seen.append((name, threading.current_thread() is threading.main_thread()))
            return read(*arguments, **options)

        return call

    for where, read_one in (("session.parse", parse), ("session.extract", extract), ("catalogue._digests", _digests)):
        monkeypatch.setattr(f"sidecar.mcp.{where}", noting(where, read_one))
    both = Both(Catalogue(store.pins))
    await both.client(request("tools/list"))
    await both.server(response({"tools": [{"name": f"t{number}", "description": "x"} for number in range(1_000)]}))
    await both.client(request("tools/call", {"name": "t1", "arguments": {"q": ["x"] * 1_000}}))
    assert seen == [
        *((name, True) for name in ("session.parse", "session.extract")),
        *((name, False) for name in ("session.parse", "session.extract", "catalogue._digests")),
        *((name, False) for name in ("session.parse", "session.extract")),
    ]
