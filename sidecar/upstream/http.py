"""Forwards over HTTP/1.1 with aiohttp's client, adding and changing nothing.

Targets go out byte for byte, redirects and cookies are not followed or kept, bodies are neither
compressed nor decompressed. A connection that cannot be made is tried again (nothing went up yet);
after the first byte nothing is ever sent twice.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from multidict import CIMultiDict, MultiMapping
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from yarl import URL

from sidecar import telemetry
from sidecar.config import Upstream as Settings
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream.message import Answer, Outgoing

ATTEMPTS = 3
FIELD_BYTES = 32 * 1024
CREDENTIALS = ("Authorization", "X-API-Key", "Api-Key")
# Shorter than the idle timeout of common servers (5 s), so that a request seldom meets a connection
# that the other side is just closing: a POST on such a one could not be repeated.
KEEPALIVE = 4.0


def read_credential(path: Path | None) -> str | None:
    """The upstream's API key. Raises `ConfigError` when the file cannot be read or holds none."""
    if path is None:
        return None
    try:
        value = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("upstream.api_key_file", [f"{path}: {type(error).__name__}"]) from None
    if not value or not value.isprintable():
        raise ConfigError("upstream.api_key_file", [f"{path}: does not hold a key"])
    return value


class HttpUpstream:
    """One HTTP(S) origin. `credential`, where given, replaces whatever credentials the client sent."""

    def __init__(self, url: str, settings: Settings, credential: str | None = None) -> None:
        try:
            parsed = URL(url)
        except ValueError as error:
            raise ConfigError("upstream.url", [str(error)]) from None
        if not parsed.host:
            raise ConfigError("upstream.url", [f"{url!r} names no host"])
        self._origin = str(parsed.origin())
        self._base = parsed.raw_path.rstrip("/")
        self._settings = settings
        self._credential = credential
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def send(self, request: Outgoing) -> AsyncIterator[Answer]:
        """See `Upstream`."""
        response = await self._begin(request)
        del request  # its body need not be kept for as long as a stream lasts
        try:
            yield _HttpAnswer(response, self._settings.idle_timeout)
        finally:
            # Closing, not releasing: unread bytes mean that the client left, and the upstream shall stop.
            response.close()

    async def _begin(self, request: Outgoing) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(self._settings.connect_timeout + self._settings.first_byte_timeout):
                return await self._tried(request)
        except TimeoutError as error:
            raise _late(error) from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(f"The upstream did not answer ({_cause(error)}).") from None

    async def _tried(self, request: Outgoing) -> aiohttp.ClientResponse:
        """Nearly every request needs one attempt, and does not pay for the means to make several."""
        try:
            return await self._request(request)
        except aiohttp.ClientConnectorError as error:
            if not _never_connected(error):
                raise
        again = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.05, max=0.5),
            retry=retry_if_exception(_never_connected),
            reraise=True,
        )
        return await again(self._request, request)

    async def _request(self, request: Outgoing) -> aiohttp.ClientResponse:
        return await self._client().request(
            request.method,
            URL(self._origin + self._path(request.target), encoded=True),
            headers=telemetry.upward(self._headers(request)),
            data=request.body,
            allow_redirects=False,
        )

    def _path(self, target: str) -> str:
        """The base path of the URL, then the target; a `/v1` at the seam is not said twice."""
        base = self._base.removesuffix("/v1") if target.startswith("/v1/") else self._base
        return base + target

    def _headers(self, request: Outgoing) -> CIMultiDict[str]:
        if self._credential is None:
            return request.headers
        headers = request.headers.copy()
        for name in CREDENTIALS:
            headers.popall(name, None)
        bearer = request.credential == "Authorization"
        headers[request.credential] = f"Bearer {self._credential}" if bearer else self._credential
        return headers

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._settings.connections, keepalive_timeout=KEEPALIVE),
                # Counts the wait for a free connection too: nobody queues for as long as a stream may last.
                timeout=aiohttp.ClientTimeout(total=None, connect=self._settings.connect_timeout),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                max_line_size=FIELD_BYTES,
                max_field_size=FIELD_BYTES,
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        """See `Upstream`."""
        if self._session is not None:
            await self._session.close()


class _HttpAnswer:
    """An answer whose headers have arrived."""

    def __init__(self, response: aiohttp.ClientResponse, idle: float) -> None:
        self._response = response
        self._idle = idle

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def reason(self) -> str:
        return self._response.reason or ""

    @property
    def headers(self) -> MultiMapping[str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer`. What has arrived is handed on at once; nothing is read ahead of the consumer."""
        content = self._response.content
        try:
            while True:
                async with asyncio.timeout(self._idle):
                    chunk = await content.readany()
                if not chunk:
                    return
                yield chunk
        except TimeoutError:
            raise UpstreamError("The upstream stalled in the middle of its answer.", status=504) from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(f"The upstream broke off its answer ({_cause(error)}).") from None


def _never_connected(error: BaseException) -> bool:
    """Refused, unreachable or unresolved: nothing went up. A bad certificate will not be better next time."""
    return isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError)


def _late(error: TimeoutError) -> UpstreamError:
    connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
    said = "could not be reached in time" if connecting else "did not begin to answer in time"
    return UpstreamError(f"The upstream {said}.", status=504)


def _cause(error: BaseException) -> str:
    """What went wrong, in a word: the text of the error may name internal addresses."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "name not resolved"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "TLS failed"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection refused"
    if isinstance(error, aiohttp.ClientResponseError):
        return "not valid HTTP"
    return "connection lost"
