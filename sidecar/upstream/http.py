"""Forwards over HTTP/1.1 without adding or changing anything.

Targets are sent byte for byte, redirects are not followed, cookies are not kept, bodies are neither compressed nor
decompressed. A failed connection attempt is retried, since nothing was sent yet; after the first byte nothing is sent
twice, except a GET or HEAD on a reused connection that the server was just closing (RFC 9110, 9.2.2): llama.cpp
closes the connection after every stream without announcing it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import math
import re
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from aiohttp.streams import EofStream, StreamReader
from multidict import CIMultiDict, MultiMapping
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from yarl import URL

from sidecar.config import Upstream as Settings
from sidecar.config.secret_files import read_secret
from sidecar.errors import BodyError, ConfigError, UpstreamError
from sidecar.observability import tracing
from sidecar.upstream import proxies, redirects, tls, websockets
from sidecar.upstream.connection_pool import ConnectError, Connection, ConnectionPool, ConnectTimeout
from sidecar.upstream.message import UpstreamRequest, UpstreamResponse
from sidecar.util.timeouts import with_timeout

ATTEMPTS = 3
OTHER_HOST = "The signature is for another host than that of the upstream (upstream.url): sign the request for that."
LATE = "The upstream did not begin to answer in time."
MAX_CLIENT_TIMEOUT = 3600.0
"""Longest timeout in seconds that a client may request in `X-Stainless-Timeout`."""
MAX_FIELD_BYTES, MAX_FIELDS = 64 * 1024, 1000
"""Bounds on the head of a response: cookies and policies of an upstream's front end may be long."""
CREDENTIAL_HEADERS = ("Authorization", "X-API-Key", "Api-Key", "X-Goog-Api-Key")
ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
"""The account of the client's key: removed when the sidecar's own key is sent."""
CREDENTIAL_PROTOCOLS = ("openai-insecure-api-key.", "openai-organization.", "openai-project.")
"""Credentials and accounts among the subprotocols of a websocket."""
_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_SAFE_METHODS = frozenset({"GET", "HEAD"})


def read_credential(path: Path | None, setting: str = "upstream.api_key_file") -> str | None:
    """The upstream's API key. Raises `ConfigError` when the file cannot be read or holds none."""
    if path is None:
        return None
    return read_secret(path, setting)


class HttpUpstream:
    """One HTTP(S) origin. `credential`, if given, replaces any credentials the client sent.

    `late`: what a client is told when no answer has begun in time.
    """

    def __init__(self, url: str, settings: Settings, credential: str | None = None, *, late: str = LATE) -> None:
        try:
            parsed = URL(url)
        except ValueError as error:
            raise ConfigError("upstream.url", [str(error)]) from None
        if not parsed.host or not parsed.port:
            raise ConfigError("upstream.url", [f"{url!r} names no host"])
        self._origin = parsed.origin()
        self._host = parsed.host_port_subcomponent or ""
        self._base = parsed.raw_path.rstrip("/")
        self._settings, self._late = settings, late
        self._credential = credential
        removed_names = re.compile("|".join(map(fnmatch.translate, map(str.lower, settings.headers.remove))) or r"(?!)")
        self._is_removed = lru_cache(1024)(lambda name: removed_names.fullmatch(name.lower()) is not None)
        encrypted, proxy = parsed.scheme == "https", proxies.select_proxy(settings.proxy, parsed)
        self._proxy = proxy
        self._plain_proxy = None if encrypted else proxy  # plain HTTP requests are sent to the proxy
        self._pool = ConnectionPool(
            parsed.raw_host or "",
            parsed.port,
            tls=tls.create_context(settings.tls) if encrypted else None,
            max_connections=settings.connections,
            timeout=settings.connect_timeout,
            proxy=proxy,
        )

    @property
    def problem(self) -> str | None:
        """See `Dependency`."""
        return f"upstream {self._origin} cannot be reached: {self._pool.problem}" if self._pool.problem else None

    async def probe(self) -> None:
        """See `Dependency`."""
        await self._pool.probe()

    async def try_connect(self) -> None:
        """Open a connection and close it; `problem` says then why that failed."""
        await self._pool.try_connect()

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """See `Upstream`."""
        return _Exchange(self._begin(request))

    def connect_websocket(
        self, request: UpstreamRequest, protocols: Sequence[str], max_message_size: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """See `Upstream`."""
        url = URL(f"{self._origin}{self._path(request.target)}", encoded=True)
        fields = tracing.inject_context(self._headers(request)).items()
        headers = CIMultiDict((name, value) for name, value in fields if not name.lower().startswith("sec-websocket-"))
        names = [name for name in protocols if self._credential is None or not name.startswith(CREDENTIAL_PROTOCOLS)]
        timeout = self._settings.connect_timeout
        return websockets.connect(
            url,
            headers,
            names,
            max_message_size=max_message_size,
            connect_timeout=timeout,
            handshake_timeout=timeout + self._settings.first_byte_timeout,
            tls=self._pool.tls,
            proxy=self._proxy,
        )

    async def _begin(self, request: UpstreamRequest) -> _HttpResponse:
        if request.signed_host not in {None, self._host} and self._credential is None:
            raise BodyError("malformed", OTHER_HOST)
        try:
            timeout = _response_timeout(request, self._settings.first_byte_timeout)
            async with asyncio.timeout(self._settings.connect_timeout + timeout):
                return await self._with_retries(request)
        except TimeoutError as error:
            raise _timeout_error(error, self._late) from None
        except (*_CONNECTION_ERRORS, ConnectError) as error:
            raise UpstreamError(f"The upstream did not answer ({_cause(error)}).") from None

    async def _with_retries(self, request: UpstreamRequest) -> _HttpResponse:
        """Nearly every request succeeds at once, and does not pay for the retry machinery."""
        try:
            return await self._request(request)
        except _ConnectionLost:
            return await self._request(request, fresh=True)
        except ConnectError as error:
            if not error.retryable:
                raise
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.05, max=0.5),
            retry=retry_if_exception(lambda error: isinstance(error, ConnectError) and error.retryable),
            reraise=True,
        )
        return await retrying(self._request, request)

    async def _request(self, request: UpstreamRequest, *, fresh: bool = False) -> _HttpResponse:
        connection = await self._pool.acquire(fresh=fresh)
        try:
            connection.set_response_params(
                skip_payload=request.method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=MAX_FIELD_BYTES,
                max_field_size=MAX_FIELD_BYTES,
                max_headers=MAX_FIELDS,
            )
            await self._write(connection, request)
            head, body = await _read_final(connection)
        except BaseException as error:
            connection.force_close()
            self._pool.release(connection)
            if connection.reused and _is_repeatable(request) and isinstance(error, aiohttp.ClientConnectionError):
                raise _ConnectionLost from None
            raise
        idle_timeout = _response_timeout(request, self._settings.idle_timeout)
        response = _HttpResponse(head, body, connection, self._pool, idle_timeout)
        if head.code in redirects.REDIRECTS and "Location" in head.headers:
            self._redirect(response, request)
        return response

    def _redirect(self, response: _HttpResponse, request: UpstreamRequest) -> None:
        """Rewrite or reject a redirect, so that no client is led past the sidecar."""
        request_url = URL(f"{self._origin}{self._path(request.target)}", encoded=True)
        headers = CIMultiDict(response.headers)
        base = self._base.removesuffix("/v1")
        try:
            headers["Location"] = redirects.rewrite_location(
                response.status,
                headers["Location"],
                request_url=request_url,
                base_path=base,
                bodiless=request.body is None,
            )
        except BaseException:
            response.release()
            raise
        response.headers = headers

    async def _write(self, connection: Connection, request: UpstreamRequest) -> None:
        writer = StreamWriter(connection, asyncio.get_running_loop())
        body = request.body
        headers = tracing.inject_context(self._headers(request))
        fields = CIMultiDict([("Host", self._host), *headers.items()])
        if isinstance(body, bytes) or (body is None and request.method not in _BODILESS_METHODS):
            fields["Content-Length"] = str(len(body or b""))
        elif body is not None and "Content-Length" not in fields:
            fields["Transfer-Encoding"] = "chunked"
            writer.enable_chunking()
        path = self._path(request.target)
        if self._plain_proxy is not None:
            path = f"http://{self._host}{path}"
            if self._plain_proxy.authorization:
                fields["Proxy-Authorization"] = self._plain_proxy.authorization
        await writer.write_headers(f"{request.method} {path} HTTP/1.1", fields)
        if body is None or isinstance(body, bytes):
            await writer.write_eof(body or b"")
            writer.set_eof()
        else:
            await _send_body(body, writer, connection)

    def _path(self, target: str) -> str:
        """The base path of the URL, then the target; a `/v1` in both is sent once."""
        base = self._base.removesuffix("/v1") if target.startswith("/v1/") else self._base
        return base + target

    def _headers(self, request: UpstreamRequest) -> CIMultiDict[str]:
        """The client's headers that may be forwarded, those of the settings, and the upstream's key if configured."""
        headers = CIMultiDict((n, v) for n, v in request.headers.items() if not self._is_removed(n))
        headers.update(self._settings.headers.add)
        if self._credential is None:
            return headers
        for name in (*CREDENTIAL_HEADERS, *ACCOUNT_HEADERS):
            headers.popall(name, None)
        bearer = request.credential == "Authorization"
        headers[request.credential] = f"Bearer {self._credential}" if bearer else self._credential
        return headers

    async def close(self) -> None:
        """See `Upstream`."""
        await self._pool.close()


class _Exchange:
    """One request and its response, as a context manager. A generator would cost twice as much."""

    def __init__(self, sending: Coroutine[Any, Any, _HttpResponse]) -> None:
        self._sending = sending

    async def __aenter__(self) -> UpstreamResponse:
        self._response = await self._sending
        del self._sending  # frees the request body while the response is streamed
        return self._response

    async def __aexit__(self, *_: object) -> None:
        self._response.release()


class _HttpResponse:
    """A response whose headers have arrived; iterates over its body."""

    def __init__(
        self,
        head: RawResponseMessage,
        body: StreamReader,
        connection: Connection,
        pool: ConnectionPool,
        idle_timeout: float,
    ) -> None:
        self._head, self._body = head, body
        self.headers: MultiMapping[str] = head.headers
        self._connection: Connection | None = connection
        self._pool = pool
        self._idle_timeout = idle_timeout
        body.on_eof(self.release)

    @property
    def status(self) -> int:
        return self._head.code

    @property
    def reason(self) -> str:
        return self._head.reason

    def chunks(self) -> AsyncIterator[bytes]:
        """See `UpstreamResponse`. Data is passed on as it arrives; nothing is read ahead of the consumer."""
        return self

    def __aiter__(self) -> _HttpResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._body.at_eof():
                if chunk := await with_timeout(self._idle_timeout, self._body.readany()):
                    return chunk
        except TimeoutError:
            raise UpstreamError("The upstream stalled in the middle of its answer.", status=504) from None
        except _CONNECTION_ERRORS as error:
            raise UpstreamError(f"The upstream broke off its answer ({_cause(error)}).") from None
        raise StopAsyncIteration

    def release(self) -> None:
        """Return the connection to the pool, once: at the end of the body or earlier."""
        if self._connection is not None:
            self._pool.release(self._connection)
            self._connection = None


class _ConnectionLost(aiohttp.ClientConnectionError):
    """A reused connection was closed under a request that may be sent once more."""


def _is_repeatable(request: UpstreamRequest) -> bool:
    return request.method in _SAFE_METHODS and (request.body is None or isinstance(request.body, bytes))


def _response_timeout(request: UpstreamRequest, default: float) -> float:
    """How long to wait for the upstream: as long as the client says it will, if that is longer."""
    try:
        client_timeout = float(request.headers.get("X-Stainless-Timeout", ""))
    except ValueError:
        return default
    return max(default, min(client_timeout, MAX_CLIENT_TIMEOUT)) if math.isfinite(client_timeout) else default


async def _send_body(body: AsyncIterator[bytes], writer: StreamWriter, connection: Connection) -> None:
    """Send a body as it arrives; stop once the upstream has responded or no longer reads."""
    try:
        async for chunk in body:
            await writer.write(chunk)
            await writer.drain()
            if len(connection):
                connection.force_close()
                return
        await writer.write_eof()
    except ConnectionError:
        if not len(connection):
            raise
        connection.force_close()
    except web.RequestPayloadError:  # the client disconnected
        raise aiohttp.ClientConnectionError from None


async def _read_final(connection: Connection) -> tuple[RawResponseMessage, StreamReader]:
    """The final response, after any interim ones (1xx)."""
    while True:
        head, body = await connection.read()
        if not 100 <= head.code < 200:
            return head, body
        if head.code == 101:  # no upgrade was requested
            raise HttpProcessingError(code=502, message="not HTTP any more")


_CONNECTION_ERRORS = (aiohttp.ClientError, HttpProcessingError, EofStream, OSError)


def _timeout_error(error: TimeoutError, late: str) -> UpstreamError:
    is_connect = isinstance(error, ConnectTimeout)
    return UpstreamError("The upstream could not be reached in time." if is_connect else late, status=504)


def _cause(error: BaseException) -> str:
    """The cause in a few words: the text of the error may name internal addresses."""
    if isinstance(error, ConnectError):
        return str(error)
    return "not valid HTTP" if isinstance(error, HttpProcessingError) else "connection lost"
