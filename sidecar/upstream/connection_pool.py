"""A connection pool for one origin: connections are opened on demand, kept alive briefly, and bounded in number.

Requests and responses are written and parsed by aiohttp's protocol classes. aiohttp's client session covers far more
use cases, and costs more than scanning a prompt does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress

from aiohappyeyeballs import start_connection
from aiohttp.client_proto import ResponseHandler

from sidecar.upstream.proxies import Proxy, ProxyRefused, open_tunnel
from sidecar.util import logs

_log = logs.get("upstream")

# Shorter than the idle timeout of common servers (5 s), so that a request seldom meets a connection
# that the server is just closing: a POST on it could not be repeated.
KEEPALIVE = 4.0
HAPPY_EYEBALLS_DELAY = 0.25
"""Seconds until the next address of a name is tried in parallel (RFC 8305)."""


class Connection(ResponseHandler):
    """One connection."""

    reused = False
    """Whether it carried a response before: then the server may be closing it just now."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of the request not yet sent; an upstream that has already responded may never read them."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Called after every read; unless reading was paused there is nothing to parse again."""
        if self._reading_paused:
            super().resume_reading(resume_parser)


class ConnectError(Exception):
    """No connection could be opened, so nothing was sent. `retryable`: another attempt may succeed."""

    def __init__(self, cause: str, *, retryable: bool = True) -> None:
        super().__init__(cause)
        self.retryable = retryable


class ConnectTimeout(TimeoutError):
    """No connection was available in time."""


class ConnectionPool:
    """At most `max_connections` at once; acquiring one takes at most `timeout` seconds.

    Invariant: every acquired connection holds one permit of `_slots`; the connections in `_idle` hold none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        max_connections: int,
        timeout: float,
        proxy: Proxy | None = None,
    ) -> None:
        self._host, self._port = host, port
        self.tls, self._proxy = tls, proxy
        self._slots = asyncio.Semaphore(max_connections)
        self._timeout = timeout
        self._idle: list[tuple[Connection, float]] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self.problem: str | None = None
        """Why the latest attempt to connect failed; None if it succeeded, or before the first."""

    async def probe(self) -> None:
        """Connect anew if the latest attempt failed."""
        if self.problem is not None:
            await self.try_connect()

    async def try_connect(self) -> None:
        """Open a connection and close it; `problem` says then why that failed."""
        with suppress(ConnectError, ConnectTimeout):
            connection = await self.acquire(fresh=True)
            connection.force_close()
            self.release(connection)

    async def acquire(self, *, fresh: bool = False) -> Connection:
        """A connection for one request; `fresh`: a new one. Raises `ConnectError` or `ConnectTimeout`."""
        if not fresh and self._idle and not self._slots.locked() and (connection := self._pop_idle()) is not None:
            await self._slots.acquire()  # does not wait
            return connection
        try:
            async with asyncio.timeout(self._timeout):
                return await self._acquire_slot(fresh)
        except TimeoutError:
            raise ConnectTimeout from None

    async def _acquire_slot(self, fresh: bool) -> Connection:
        await self._slots.acquire()
        try:
            connection = None if fresh else self._pop_idle()  # a connection is falsy: it is an empty queue
            return await self._observed_connect() if connection is None else connection
        except BaseException:
            self._slots.release()
            raise

    def _pop_idle(self) -> Connection | None:
        """The most recently used idle connection that is still usable. One that received unexpected data is not."""
        oldest = time.monotonic() - KEEPALIVE
        while self._idle:
            connection, idle_since = self._idle.pop()
            if idle_since >= oldest and connection.is_connected() and not connection.should_close:
                return connection
            connection.close()
        return None

    async def _observed_connect(self) -> Connection:
        """Connect, and note the outcome. A client that leaves early says nothing about the upstream."""
        started_at = time.monotonic()
        try:
            connection = await self._connect()
        except ConnectError as error:
            self._note_problem(str(error))
            raise
        except asyncio.CancelledError:
            if time.monotonic() - started_at > self._timeout / 2:
                self._note_problem("no connection in time")
            raise
        self._note_problem(None)
        return connection

    def _note_problem(self, problem: str | None) -> None:
        """Log a change: an upstream that is away must not fill the log with each request."""
        if problem and problem != self.problem:
            _log.warning("upstream_unreachable", host=self._host, port=self._port, reason=problem)
        elif self.problem and not problem:
            _log.info("upstream_reached", host=self._host, port=self._port)
        self.problem = problem

    async def _connect(self) -> Connection:
        try:
            return await self._start(await self._open_socket())
        except socket.gaierror:
            raise ConnectError("name not resolved") from None
        except ssl.SSLError as error:
            _log.warning("upstream_tls_failed", host=self._host, reason=_reason(error))
            raise ConnectError("TLS failed", retryable=False) from None
        except ProxyRefused as error:
            _log.warning("upstream_proxy_refused", host=self._host, reason=str(error))
            raise ConnectError(f"the proxy refused, {error}", retryable=False) from None
        except OSError:
            raise ConnectError("connection refused") from None

    async def _open_socket(self) -> socket.socket:
        """A socket to the upstream, through the proxy if there is one."""
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = await start_connection(addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY)
        if self._proxy and self.tls:
            try:
                await open_tunnel(sock, self._proxy, self._host, self._port)
            except BaseException:
                sock.close()
                raise
        return sock

    async def _start(self, sock: socket.socket) -> Connection:
        loop = asyncio.get_running_loop()
        name = self._host if self.tls else None
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(loop), sock=sock, ssl=self.tls, server_hostname=name
            )
        except BaseException:
            sock.close()
            raise
        return connection

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool; it is kept alive if its last exchange is complete, else closed."""
        self._slots.release()
        if connection.should_close or not connection.is_connected() or connection.unsent_bytes:
            # Closing stops the upstream when a client left before the end of the response.
            connection.close()
            return
        connection.reused = True
        self._idle.append((connection, time.monotonic()))
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(KEEPALIVE, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been idle for too long."""
        oldest = time.monotonic() - KEEPALIVE
        for connection, idle_since in self._idle:
            if idle_since < oldest:
                connection.close()
        self._idle = [(connection, idle_since) for connection, idle_since in self._idle if idle_since >= oldest]
        remaining = bool(self._idle)
        self._sweeper = asyncio.get_running_loop().call_later(KEEPALIVE / 4, self._sweep) if remaining else None

    async def close(self) -> None:
        """Close the idle connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # lets the loop run their close callbacks


def _reason(error: ssl.SSLError) -> str:
    """The library's description of a failed handshake, for the log."""
    return getattr(error, "verify_message", "") or error.reason or type(error).__name__
