"""Connections to one origin: opened when needed, kept for a while when done with, never more than so many.

What passes on a connection is written and read by aiohttp's parts. Its session, which serves every purpose of a
client, costs more than scanning a prompt does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time

from aiohappyeyeballs import start_connection
from aiohttp.client_proto import ResponseHandler

from sidecar.upstream.proxies import Proxy, Refused, tunnel
from sidecar.util import logs

_log = logs.get("upstream")

# Shorter than the idle timeout of common servers (5 s), so that a request seldom meets a connection
# that the other side is just closing: a POST on such a one could not be repeated.
KEEPALIVE = 4.0
NEXT_ADDRESS = 0.25
"""Seconds until the next address of a name is tried beside the one before."""


class Wire(ResponseHandler):
    """One connection."""

    kept = False
    """Whether an answer has come on it before: then the other side may be closing it just now."""

    @property
    def unsent(self) -> int:
        """Bytes of a request that were not taken: an upstream that has answered all the same may never do."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for after every read; where nothing was paused there is nothing to parse again."""
        if self._reading_paused:
            super().resume_reading(resume_parser)


class NotConnected(Exception):
    """There is no connection, so nothing went up. `again`: trying again may help."""

    def __init__(self, cause: str, *, again: bool = True) -> None:
        super().__init__(cause)
        self.again = again


class Unreached(TimeoutError):
    """There was no connection in time."""


class Wires:
    """`most` connections at once; getting one takes at most `patience` seconds."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        most: int,
        patience: float,
        proxy: Proxy | None = None,
    ) -> None:
        self._host, self._port = host, port
        self.tls, self._proxy = tls, proxy
        self._free = asyncio.Semaphore(most)
        self._patience = patience
        self._kept: list[tuple[Wire, float]] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def take(self, *, anew: bool = False) -> Wire:
        """A connection for one request, to be given back; a new one if asked. Raises `NotConnected` or `Unreached`."""
        if not anew and self._kept and not self._free.locked() and (kept := self._unused()) is not None:
            await self._free.acquire()  # at once
            return kept
        try:
            async with asyncio.timeout(self._patience):
                return await self._wait(anew)
        except TimeoutError:
            raise Unreached from None

    async def _wait(self, anew: bool) -> Wire:
        await self._free.acquire()
        try:
            kept = None if anew else self._unused()  # which is false, being an empty queue
            return await self._connect() if kept is None else kept
        except BaseException:
            self._free.release()
            raise

    def _unused(self) -> Wire | None:
        """The one used last, if it is still good. What spoke without being asked is not."""
        oldest = time.monotonic() - KEEPALIVE
        while self._kept:
            wire, since = self._kept.pop()
            if since >= oldest and wire.is_connected() and not wire.should_close:
                return wire
            wire.close()
        return None

    async def _connect(self) -> Wire:
        try:
            return await self._on(await self._reached())
        except socket.gaierror:
            raise NotConnected("name not resolved") from None
        except ssl.SSLError as error:
            _log.warning("upstream_tls_failed", host=self._host, reason=_reason(error))
            raise NotConnected("TLS failed", again=False) from None
        except Refused as error:
            _log.warning("upstream_proxy_refused", host=self._host, reason=str(error))
            raise NotConnected(f"the proxy refused, {error}", again=False) from None
        except OSError:
            raise NotConnected("connection refused") from None

    async def _reached(self) -> socket.socket:
        """A socket to the upstream, through the proxy if there is one."""
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        connected = await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS)
        if self._proxy and self.tls:
            try:
                await tunnel(connected, self._proxy, self._host, self._port)
            except BaseException:
                connected.close()
                raise
        return connected

    async def _on(self, connected: socket.socket) -> Wire:
        loop = asyncio.get_running_loop()
        name = self._host if self.tls else None
        try:
            _, wire = await loop.create_connection(
                lambda: Wire(loop), sock=connected, ssl=self.tls, server_hostname=name
            )
        except BaseException:
            connected.close()
            raise
        return wire

    def give(self, wire: Wire) -> None:
        """Take back what `take` gave: for the next request, if the last one on it is done with."""
        self._free.release()
        if wire.should_close or not wire.is_connected() or wire.unsent:
            # Closing: unread bytes mean that the client left, and the upstream shall stop.
            wire.close()
            return
        wire.kept = True
        self._kept.append((wire, time.monotonic()))
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(KEEPALIVE, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody has used for long."""
        oldest = time.monotonic() - KEEPALIVE
        for wire, since in self._kept:
            if since < oldest:
                wire.close()
        self._kept = [(wire, since) for wire, since in self._kept if since >= oldest]
        again = bool(self._kept)
        self._sweeper = asyncio.get_running_loop().call_later(KEEPALIVE / 4, self._sweep) if again else None

    async def close(self) -> None:
        """Let go of those that are not in use."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for wire, _ in self._kept:
            wire.close()
        self._kept.clear()
        await asyncio.sleep(0)  # so that they are closed when the loop ends


def _reason(error: ssl.SSLError) -> str:
    """What the library says of a handshake that failed, for the log."""
    return getattr(error, "verify_message", "") or error.reason or type(error).__name__
