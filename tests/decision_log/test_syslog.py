"""Twin of sidecar/decision_log/syslog.py, against local servers over UDP, TCP and TLS."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from sidecar import config
from sidecar.decision_log.sink import SinkError
from sidecar.decision_log.syslog import MAX_DATAGRAM, SyslogReceiver, message

EVENT = {"time": 1700000000.25, "event": "decision_made", "id": "dec_1", "action": "block", "model": "größer"}
FORM = re.compile(
    rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\S+) prompt-sidecar (\d+) decision - (\{.*\})", re.DOTALL
)


def test_a_message_has_the_form_of_the_standard() -> None:
    """Priority from facility and severity, time in UTC, one line of ASCII with the decision as JSON."""
    match = FORM.fullmatch(message(EVENT, 13))
    assert match is not None
    assert (int(match[1]), match[2]) == (13 * 8 + 4, b"2023-11-14T22:13:20.250Z")
    assert json.loads(match[5]) == {name: value for name, value in EVENT.items() if name != "time"}
    allowed = FORM.fullmatch(message({**EVENT, "action": "allow", "route": "/a\nb"}, 16))
    assert allowed is not None
    assert (int(allowed[1]), b"\n" in allowed[0]) == (16 * 8 + 6, False)


async def test_udp_sends_a_datagram_for_each_decision() -> None:
    """None longer than a receiver must accept."""
    received: asyncio.Queue[bytes] = asyncio.Queue()

    class Server(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            received.put_nowait(data)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    syslog = SyslogReceiver(config.Syslog(url=f"udp://127.0.0.1:{port}"))
    await syslog.send([EVENT, {**EVENT, "model": "x" * 5_000}])
    first, second = [await asyncio.wait_for(received.get(), 10) for _ in range(2)]
    assert FORM.fullmatch(first)
    assert len(second) == MAX_DATAGRAM
    await syslog.close()
    transport.close()


class Stream:
    """A server that reads messages framed by their length."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read until the client leaves."""
        self.writers.append(writer)
        while length := (await reader.readuntil(b" ") if not reader.at_eof() else b"").strip():
            self.received.put_nowait(await reader.readexactly(int(length)))

    async def next(self) -> bytes:
        """The next message."""
        return await asyncio.wait_for(self.received.get(), 10)


async def _quiet(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await stream.serve(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Stream, int]]:
    """A running server and its port."""
    stream = Stream()
    server = await asyncio.start_server(lambda r, w: _quiet(stream, r, w), "127.0.0.1", 0, ssl=tls)
    try:
        yield stream, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in stream.writers:
            writer.close()


async def test_tcp_counts_octets_and_connects_again() -> None:
    """Messages follow each other on one connection; after the server has ended it, on a new one."""
    async with listening() as (stream, port):
        syslog = SyslogReceiver(config.Syslog(url=f"tcp://127.0.0.1:{port}"))
        await syslog.send([EVENT, EVENT])
        assert [bool(FORM.fullmatch(await stream.next())) for _ in range(2)] == [True, True]
        assert len(stream.writers) == 1
        stream.writers[0].close()
        await asyncio.sleep(0.2)
        await syslog.send([EVENT])
        assert FORM.fullmatch(await stream.next())
        await syslog.close()


async def test_tls_trusts_the_given_authority_and_no_other(tmp_path: Path) -> None:
    """A server of another authority gets nothing, and the error is one that is tried again."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    async with listening(context) as (stream, port):
        url = f"tls://localhost:{port}"
        syslog = SyslogReceiver(config.Syslog(url=url, ca_file=tmp_path / "ca.pem"))
        await syslog.send([EVENT])
        assert FORM.fullmatch(await stream.next())
        await syslog.close()
        distrustful = SyslogReceiver(config.Syslog(url=url, ca_file=tmp_path / "other.pem"))
        with pytest.raises((SinkError, OSError)):
            await distrustful.send([EVENT])
        await distrustful.close()


async def test_nobody_there_is_an_error_of_the_system() -> None:
    """The sink waits and tries again."""
    syslog = SyslogReceiver(config.Syslog(url="tcp://127.0.0.1:9"))
    with pytest.raises(OSError, match=r"refused|Connect"):
        await syslog.send([EVENT])
    await syslog.close()
