"""Forwards over HTTP/1.1, adding and changing nothing.

Targets go out byte for byte, redirects and cookies are not followed or kept, bodies are neither
compressed nor decompressed. A connection that cannot be made is tried again (nothing went up yet);
after the first byte nothing is sent twice but a GET or HEAD that met a kept connection which was
just being closed (RFC 9110, 9.2.2): llama.cpp closes after every stream, and does not say so.
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
from sidecar.errors import ConfigError, UpstreamError
from sidecar.observability import tracing
from sidecar.upstream import proxies, redirects, tls, websockets
from sidecar.upstream.connection_pool import NotConnected, Unreached, Wire, Wires
from sidecar.upstream.message import Answer, Outgoing
from sidecar.util.timeouts import with_timeout

ATTEMPTS = 3
LONGEST_WAIT = 3600.0
"""Seconds that a client may ask for in `X-Stainless-Timeout`."""
FIELD_BYTES, FIELDS = 64 * 1024, 1000
"""Bounds on the head of an answer: cookies and policies of an upstream's front may be long."""
CREDENTIALS = ("Authorization", "X-API-Key", "Api-Key")
ACCOUNTS = ("OpenAI-Organization", "OpenAI-Project")
"""Whose account a client's key is of: with a key of ours they are another's."""
IN_PROTOCOLS = ("openai-insecure-api-key.", "openai-organization.", "openai-project.")
"""The same among the protocols of a websocket."""
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_SAFE = frozenset({"GET", "HEAD"})


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
        if not parsed.host or not parsed.port:
            raise ConfigError("upstream.url", [f"{url!r} names no host"])
        self._origin = parsed.origin()
        self._host = parsed.host_port_subcomponent or ""
        self._base = parsed.raw_path.rstrip("/")
        self._settings = settings
        self._credential = credential
        removed = re.compile("|".join(map(fnmatch.translate, map(str.lower, settings.headers.remove))) or r"(?!)")
        self._is_removed = lru_cache(1024)(lambda name: removed.fullmatch(name.lower()) is not None)
        encrypted, proxy = parsed.scheme == "https", proxies.chosen(settings.proxy, parsed)
        self._proxy = proxy
        self._asked_proxy = None if encrypted else proxy  # a request in plain text is the proxy's to send on
        self._wires = Wires(
            parsed.raw_host or "",
            parsed.port,
            tls=tls.context(settings.tls) if encrypted else None,
            most=settings.connections,
            patience=settings.connect_timeout,
            proxy=proxy,
        )

    def send(self, request: Outgoing) -> AbstractAsyncContextManager[Answer]:
        """See `Upstream`."""
        return _Sending(self._begin(request))

    def dial(
        self, request: Outgoing, protocols: Sequence[str], most: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """See `Upstream`."""
        url = URL(f"{self._origin}{self._path(request.target)}", encoded=True)
        fields = tracing.upward(self._headers(request)).items()
        own = CIMultiDict((name, value) for name, value in fields if not name.lower().startswith("sec-websocket-"))
        names = [name for name in protocols if self._credential is None or not name.startswith(IN_PROTOCOLS)]
        patience = self._settings.connect_timeout + self._settings.first_byte_timeout
        return websockets.dial(url, own, names, most=most, patience=patience, tls=self._wires.tls, proxy=self._proxy)

    async def _begin(self, request: Outgoing) -> _HttpAnswer:
        try:
            patience = _patience(request, self._settings.first_byte_timeout)
            async with asyncio.timeout(self._settings.connect_timeout + patience):
                return await self._tried(request)
        except TimeoutError as error:
            raise _late(error) from None
        except (*_BROKEN, NotConnected) as error:
            raise UpstreamError(f"The upstream did not answer ({_cause(error)}).") from None

    async def _tried(self, request: Outgoing) -> _HttpAnswer:
        """Nearly every request needs one attempt, and does not pay for the means to make several."""
        try:
            return await self._request(request)
        except _Lost:
            return await self._request(request, anew=True)
        except NotConnected as error:
            if not error.again:
                raise
        again = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.05, max=0.5),
            retry=retry_if_exception(lambda error: isinstance(error, NotConnected) and error.again),
            reraise=True,
        )
        return await again(self._request, request)

    async def _request(self, request: Outgoing, *, anew: bool = False) -> _HttpAnswer:
        wire = await self._wires.take(anew=anew)
        try:
            wire.set_response_params(
                skip_payload=request.method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=FIELD_BYTES,
                max_field_size=FIELD_BYTES,
                max_headers=FIELDS,
            )
            await self._write(wire, request)
            head, body = await _final(wire)
        except BaseException as error:
            wire.force_close()
            self._wires.give(wire)
            if wire.kept and _repeatable(request) and isinstance(error, aiohttp.ClientConnectionError):
                raise _Lost from None
            raise
        answer = _HttpAnswer(head, body, wire, self._wires, _patience(request, self._settings.idle_timeout))
        if head.code in redirects.FOLLOWED and "Location" in head.headers:
            self._redirect(answer, request)
        return answer

    def _redirect(self, answer: _HttpAnswer, request: Outgoing) -> None:
        """Nobody is led past the sidecar."""
        asked = URL(f"{self._origin}{self._path(request.target)}", encoded=True)
        headers = CIMultiDict(answer.headers)
        base = self._base.removesuffix("/v1")
        try:
            headers["Location"] = redirects.location(
                answer.status, headers["Location"], at=asked, base=base, bodiless=request.body is None
            )
        except BaseException:
            answer.leave()
            raise
        answer.headers = headers

    async def _write(self, wire: Wire, request: Outgoing) -> None:
        writer = StreamWriter(wire, asyncio.get_running_loop())
        body = request.body
        headers = tracing.upward(self._headers(request))
        fields = CIMultiDict([("Host", self._host), *headers.items()])
        if isinstance(body, bytes) or (body is None and request.method not in _BODILESS):
            fields["Content-Length"] = str(len(body or b""))
        elif body is not None and "Content-Length" not in fields:
            fields["Transfer-Encoding"] = "chunked"
            writer.enable_chunking()
        path = self._path(request.target)
        if self._asked_proxy is not None:
            path = f"http://{self._host}{path}"
            if self._asked_proxy.authorization:
                fields["Proxy-Authorization"] = self._asked_proxy.authorization
        await writer.write_headers(f"{request.method} {path} HTTP/1.1", fields)
        if body is None or isinstance(body, bytes):
            await writer.write_eof(body or b"")
            writer.set_eof()
        else:
            await _pour(body, writer, wire)

    def _path(self, target: str) -> str:
        """The base path of the URL, then the target; a `/v1` at the seam is not said twice."""
        base = self._base.removesuffix("/v1") if target.startswith("/v1/") else self._base
        return base + target

    def _headers(self, request: Outgoing) -> CIMultiDict[str]:
        """The fields of the client that may go up, those of the settings, and the upstream's key, if it is ours."""
        headers = CIMultiDict((n, v) for n, v in request.headers.items() if not self._is_removed(n))
        headers.update(self._settings.headers.add)
        if self._credential is None:
            return headers
        for name in (*CREDENTIALS, *ACCOUNTS):
            headers.popall(name, None)
        bearer = request.credential == "Authorization"
        headers[request.credential] = f"Bearer {self._credential}" if bearer else self._credential
        return headers

    async def close(self) -> None:
        """See `Upstream`."""
        await self._wires.close()


class _Sending:
    """One request on its way, and the answer while it is read. A generator would cost as much again."""

    def __init__(self, beginning: Coroutine[Any, Any, _HttpAnswer]) -> None:
        self._beginning = beginning

    async def __aenter__(self) -> Answer:
        self._answer = await self._beginning
        del self._beginning  # the body of the request need not be kept for as long as a stream lasts
        return self._answer

    async def __aexit__(self, *_: object) -> None:
        self._answer.leave()


class _HttpAnswer:
    """An answer whose headers have arrived, and its body as an iterator."""

    def __init__(self, head: RawResponseMessage, body: StreamReader, wire: Wire, wires: Wires, idle: float) -> None:
        self._head, self._body = head, body
        self.headers: MultiMapping[str] = head.headers
        self._wire: Wire | None = wire
        self._wires = wires
        self._idle = idle
        body.on_eof(self.leave)

    @property
    def status(self) -> int:
        return self._head.code

    @property
    def reason(self) -> str:
        return self._head.reason

    def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer`. What has arrived is handed on at once; nothing is read ahead of the consumer."""
        return self

    def __aiter__(self) -> _HttpAnswer:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._body.at_eof():
                if chunk := await with_timeout(self._idle, self._body.readany()):
                    return chunk
        except TimeoutError:
            raise UpstreamError("The upstream stalled in the middle of its answer.", status=504) from None
        except _BROKEN as error:
            raise UpstreamError(f"The upstream broke off its answer ({_cause(error)}).") from None
        raise StopAsyncIteration

    def leave(self) -> None:
        """Give the connection back, once: at the end of the body, or before it."""
        if self._wire is not None:
            self._wires.give(self._wire)
            self._wire = None


class _Lost(aiohttp.ClientConnectionError):
    """A kept connection was closed under a request that may be sent once more."""


def _repeatable(request: Outgoing) -> bool:
    return request.method in _SAFE and (request.body is None or isinstance(request.body, bytes))


def _patience(request: Outgoing, least: float) -> float:
    """How long to wait for the upstream: as long as the client says that it will, if that is longer."""
    try:
        stated = float(request.headers.get("X-Stainless-Timeout", ""))
    except ValueError:
        return least
    return max(least, min(stated, LONGEST_WAIT)) if math.isfinite(stated) else least


async def _pour(body: AsyncIterator[bytes], writer: StreamWriter, wire: Wire) -> None:
    """Send a body as it comes; no further once the upstream has answered, or does not listen any more."""
    try:
        async for chunk in body:
            await writer.write(chunk)
            await writer.drain()
            if len(wire):
                wire.force_close()
                return
        await writer.write_eof()
    except ConnectionError:
        if not len(wire):
            raise
        wire.force_close()
    except web.RequestPayloadError:  # the client left in the middle
        raise aiohttp.ClientConnectionError from None


async def _final(wire: Wire) -> tuple[RawResponseMessage, StreamReader]:
    """The answer itself, behind those that say that it is coming."""
    while True:
        head, body = await wire.read()
        if not 100 <= head.code < 200:
            return head, body
        if head.code == 101:  # nobody asked for it
            raise HttpProcessingError(code=502, message="not HTTP any more")


_BROKEN = (aiohttp.ClientError, HttpProcessingError, EofStream, OSError)


def _late(error: TimeoutError) -> UpstreamError:
    said = "could not be reached in time" if isinstance(error, Unreached) else "did not begin to answer in time"
    return UpstreamError(f"The upstream {said}.", status=504)


def _cause(error: BaseException) -> str:
    """What went wrong, in a word: the text of the error may name internal addresses."""
    if isinstance(error, NotConnected):
        return str(error)
    return "not valid HTTP" if isinstance(error, HttpProcessingError) else "connection lost"
