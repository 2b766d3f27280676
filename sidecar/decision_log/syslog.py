"""Decisions as syslog messages of RFC 5424, over UDP (RFC 5426), TCP (RFC 6587, octet counting) or TLS (RFC 5425).

The message is the decision as JSON in ASCII. Over UDP nobody says that it arrived; over TCP and TLS a message may be
lost if the server ends the connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from sidecar import config
from sidecar.decision_log.sink import Event, SinkError
from sidecar.decision_log.splunk import tls_context

APP, MESSAGE_ID = "prompt-sidecar", "decision"
INFO, WARNING = 6, 4
MAX_DATAGRAM = 2_048
"""Bytes that a receiver by UDP should accept (RFC 5426)."""
CONNECT_SECONDS = 5.0


class SyslogReceiver:
    """Sends to one server, over one connection."""

    name = "syslog"

    def __init__(self, settings: config.Syslog) -> None:
        """Raises `ConfigError` if the file of authorities cannot be used."""
        parts = urlsplit(settings.url or "")
        self._host, self._port = str(parts.hostname), int(parts.port or 0)
        self._scheme, self._facility = parts.scheme, settings.facility
        self._tls = tls_context(settings.ca_file, "sinks.syslog.ca_file") if parts.scheme == "tls" else None
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._datagrams: asyncio.DatagramTransport | None = None

    async def send(self, events: Sequence[Event]) -> None:
        """Raises `OSError` or `SinkError` if there is no connection."""
        messages = [message(event, self._facility) for event in events]
        if self._scheme == "udp":
            await self._send_datagrams(messages)
        else:
            await self._send_stream(b"".join(b"%d %s" % (len(text), text) for text in messages))

    async def close(self) -> None:
        """Close the connection."""
        if self._datagrams is not None:
            self._datagrams.close()
        if self._stream is not None:
            self._stream[1].close()
        self._stream = self._datagrams = None

    async def _send_datagrams(self, messages: Sequence[bytes]) -> None:
        if self._datagrams is None or self._datagrams.is_closing():
            loop, address = asyncio.get_running_loop(), (self._host, self._port)
            self._datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
        for text in messages:
            self._datagrams.sendto(text[:MAX_DATAGRAM])

    async def _send_stream(self, data: bytes) -> None:
        if self._stream is not None and self._stream[0].at_eof():
            await self.close()
        try:
            _, writer = self._stream = self._stream or await self._connect()
            writer.write(data)
            await writer.drain()
        except ssl.SSLError as error:
            await self.close()
            raise SinkError(f"TLS: {error.reason or type(error).__name__}") from None
        except BaseException:  # also when cancelled: what was written in part must not go on
            await self.close()
            raise

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return reader, writer


def message(event: Event, facility: int) -> bytes:
    """One event as RFC 5424 has it."""
    severity = WARNING if event.get("action") in {"block", "monitor"} else INFO
    at = datetime.fromtimestamp(float(event.get("time", 0.0)), UTC).isoformat(timespec="milliseconds")
    head = f"<{facility * 8 + severity}>1 {at.replace('+00:00', 'Z')} {_HOST} {APP} {os.getpid()} {MESSAGE_ID} - "
    fields = {name: value for name, value in event.items() if name != "time"}
    return (head + json.dumps(fields, separators=(",", ":"))).encode("ascii")


_HOST = "".join(char for char in socket.gethostname() if "!" <= char <= "~")[:255] or "-"
