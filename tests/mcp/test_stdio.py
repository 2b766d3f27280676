"""Tests of the wrapper of a server over standard input and output: real processes, lines both ways."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from inline_proxy import RecordedDecisionLog, WordScanner

from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.mcp.session import McpScanner
from sidecar.mcp.stdio import Line, Output, Wrapper, read_lines, start, stop
from sidecar.scan.service import ScanService

TINY = Path(__file__).parent / "tiny_server.py"


class Client(Output):
    """The other end: what is written to it is kept, and a message can be waited for."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.input = asyncio.StreamReader()

    async def write(self, content: bytes) -> None:
        """Keep it."""
        self.lines.put_nowait(content)

    def send(self, *messages: object) -> None:
        """Send lines."""
        for message in messages:
            self.input.feed_data((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")

    async def read(self) -> Any:
        """The next message."""
        async with asyncio.timeout(20):
            return json.loads(await self.lines.get())


async def wrapped(client: Client, command: list[str], **settings: Any) -> asyncio.Task[int]:
    """A running wrapper; its result is the exit code."""
    merged = Settings.model_validate(settings)
    service = ScanService(WordScanner(), merged, RecordedDecisionLog())  # type: ignore[arg-type]
    server = await start(command)
    wrapper = Wrapper(McpScanner(merged, service, "tiny"), server, client.input, client)

    async def relay() -> int:
        await wrapper.run()
        return await stop(server)

    return asyncio.ensure_future(relay())


def call(number: int, tool: str = "echo", **arguments: str) -> dict[str, Any]:
    """A call of a tool."""
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def test_messages_pass_and_refusals_are_answered_in_order(tmp_path: Path) -> None:
    """The server sees what the client sent, but for what was refused; its exit code is that of the wrapper."""
    script, client = tmp_path / "script.json", Client()
    script.write_text(json.dumps({"evil": {"content": [{"type": "text", "text": "EVIL"}]}}), "utf-8")
    running = await wrapped(client, [sys.executable, str(TINY), str(script)])
    client.send(call(1, q="rain"), b"", call(2, q="EVIL"), call(3, "evil"), call(4, q="snow"))
    answers = {}
    for _ in range(4):
        answer = await client.read()
        answers[answer["id"]] = answer["result"]
    assert [number for number, result in answers.items() if "isError" in result] in ([2, 3], [3, 2])
    assert answers[4]["content"][0]["text"] == '{"q": "snow"}'
    client.input.feed_eof()
    assert await running == 0
    received = [json.loads(line)["id"] for line in script.with_suffix(".received").read_text("utf-8").splitlines()]
    assert received == [1, 3, 4]


async def test_lines_that_are_no_messages_do_not_reach_the_client(tmp_path: Path) -> None:
    """A server that prints something else does not break the connection."""
    script, client = tmp_path / "script.json", Client()
    script.write_text(json.dumps({"raw": ["Ready to serve!", '{"a": 1']}), "utf-8")
    running = await wrapped(client, [sys.executable, str(TINY), str(script)])
    client.send(call(1))
    assert (await client.read())["id"] == 1
    client.input.feed_eof()
    assert await running == 0
    assert client.lines.empty()


async def test_a_line_that_is_too_long_is_answered_and_the_next_one_passes(tmp_path: Path) -> None:
    """In both directions (`limits.body_bytes`)."""
    script, client = tmp_path / "script.json", Client()
    script.write_text(json.dumps({"large": {"content": [{"type": "text", "text": "x" * 300_000}]}}), "utf-8")
    limits = {"body_bytes": 200_000, "bodies": 20_000_000}
    running = await wrapped(client, [sys.executable, str(TINY), str(script)], limits=limits)
    client.send(call(1, q="y" * 300_000))
    assert "limits.body_bytes" in (await client.read())["error"]["message"]
    client.send(call(2, "large"))
    refused = (await client.read())["result"]
    assert (refused["isError"], "limits.body_bytes" in refused["content"][0]["text"]) == (True, True)
    client.send(call(3, q="z"))
    assert (await client.read())["id"] == 3
    client.input.feed_eof()
    assert await running == 0


async def test_a_server_that_ends_ends_the_wrapper_with_its_code() -> None:
    """The client sees the end of the output."""
    client = Client()
    running = await wrapped(client, [sys.executable, "-c", "raise SystemExit(7)"])
    async with asyncio.timeout(20):
        assert await running == 7


async def test_a_server_that_a_signal_ended_has_the_code_of_a_shell() -> None:
    """128 and the number of the signal, which no other program would give."""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, 137)):
        server = await start([sys.executable, "-c", "input()"])
        server.send_signal(number)
        assert await stop(server) == code


@pytest.mark.slow
async def test_a_server_that_does_not_end_is_ended() -> None:
    """First by the end of its input, then by signals."""
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\ntime.sleep(99)"
    client = Client()
    running = await wrapped(client, [sys.executable, "-c", code])
    client.input.feed_eof()
    async with asyncio.timeout(40):
        assert await running == 137


async def test_a_server_that_reads_nothing_while_it_writes_is_read() -> None:
    """Its refused requests wait for their answers; its output does not wait for them."""
    ask = {"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {"systemPrompt": "EVIL"}}
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 20_000}}
    code = (
        f"import sys, time\ntime.sleep(1)\nprint({json.dumps(ask)!r})\n"
        f"for _ in range(60): print({json.dumps(note)!r})\nsys.stdout.flush()\n"
        "for line in sys.stdin:\n  if 's1' in line or '\"id\": 99' in line: print(line, flush=True)"
    )
    client = Client()
    running = await wrapped(client, [sys.executable, "-c", code])
    client.send(*(call(number, q="x" * 20_000) for number in range(100)))
    for _ in range(60):
        assert (await client.read())["method"] == "notifications/message"
    assert {(await client.read())["id"] for _ in range(2)} == {"s1", 99}
    client.input.feed_eof()
    assert await running == 0


async def test_answers_that_the_server_never_reads_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those above `MAX_REPLIES`, so that memory is bounded."""
    monkeypatch.setattr("sidecar.mcp.stdio.MAX_REPLIES", 1)
    server = await start([sys.executable, "-c", ""])
    service = ScanService(WordScanner(), Settings(), RecordedDecisionLog())  # type: ignore[arg-type]
    wrapper = Wrapper(McpScanner(Settings(), service, "tiny"), server, asyncio.StreamReader(), Client())
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            await wrapper._reply(b"{}", to_server=True)
    assert [entry["event"] for entry in logged] == ["mcp_reply_dropped"] * 2
    await server.wait()


WRITER = """
import asyncio, os
from sidecar.mcp.stdio import Output
async def main():
    writing = asyncio.ensure_future(Output().write(b"x" * 1_000_000))
    await asyncio.sleep(0.5)
    writing.cancel()
asyncio.run(main())
"""


async def test_a_client_that_reads_nothing_does_not_keep_the_wrapper_alive() -> None:
    """A blocked write is left behind."""
    unread, writable = os.pipe()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, stdout=writable)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    os.close(unread)
    os.close(writable)


async def test_output_is_written_whole_and_a_closed_reader_is_an_error() -> None:
    """Whatever the size."""
    code = WRITER.replace("writing.cancel()", "await writing")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    content, _ = await process.communicate()
    assert (len(content), process.returncode) == (1_000_000, 0)
    closed = code.replace("async def main():", "os.close(1)\nasync def main():")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", closed, stderr=asyncio.subprocess.PIPE)
    _, stderr = await process.communicate()
    assert b"OSError" in stderr


async def test_a_program_that_does_not_exist_is_an_error_with_its_name() -> None:
    """Before anything is scanned."""
    with pytest.raises(ConfigError, match="no-such-program"):
        await start(["no-such-program"])


async def test_lines_are_read_whole_however_they_arrive() -> None:
    """Empty ones are skipped, too long ones shortened, the last one may lack its end."""
    reader = asyncio.StreamReader()
    for part in (b"a", b"b\n\n c\r\n", b"x" * 25 + b"\nd", b"e"):
        reader.feed_data(part)
    reader.feed_eof()
    lines = [line async for line in read_lines(reader, 20)]
    assert lines == [Line(b"ab"), Line(b" c\r"), Line(b"x" * 20, whole=False), Line(b"de")]
