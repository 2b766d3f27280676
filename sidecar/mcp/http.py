"""Servers over Streamable HTTP at `/mcp/NAME`: every message is scanned, everything else passes byte for byte.

Sessions, resumption and versions are headers (`Mcp-Session-Id`, `Last-Event-ID`, `MCP-Protocol-Version`), which pass
unchanged both ways; of a status the number passes. The answer to a POST is JSON or an event stream, the answer to a GET
an event stream; each of its events is scanned as it arrives. A request that is refused is answered at once, and one of
the server's is answered to it with a POST of the same session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from sidecar.config import McpServer, Settings
from sidecar.errors import BodyError, RequestError, Unavailable, UpstreamError
from sidecar.extraction import json_body
from sidecar.limits import OverBudget
from sidecar.limits.memory_budget import SMALL_BODY
from sidecar.mcp.catalogue import Catalogue
from sidecar.mcp.events import EventScanner
from sidecar.mcp.refusals import UNSCANNED, Refusal, answer
from sidecar.mcp.session import McpScanner, Session
from sidecar.response_scan.sse import whole_events
from sidecar.scan.service import ScanContext, ScanService
from sidecar.server.body import decode_body, read_body
from sidecar.server.caller import scan_context
from sidecar.server.headers import client_headers, upstream_headers
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import DECISION, DECISION_ID
from sidecar.upstream import UpstreamRequest, UpstreamResponse
from sidecar.upstream.http import HttpUpstream, read_credential
from sidecar.util import json, logs
from sidecar.util.timeouts import with_timeout

PREFIX = "/mcp/"
METHODS = frozenset({"GET", "POST", "DELETE"})
SESSION_ID = "Mcp-Session-Id"
MAX_SESSIONS = 1_000
WRITE_TIMEOUT = 60.0
"""Seconds after which a client that reads nothing is disconnected."""
_log = logs.get("mcp")


class _NoSuchServer(RequestError):
    status = 404
    code = "not_found"


class _MethodNotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"


@dataclass(slots=True)
class Sessions:
    """The sessions with one server by their ids, the latest `MAX_SESSIONS`; any other begins anew.

    A session only remembers which request a response answers, so nothing breaks if it is forgotten.
    """

    scanner: McpScanner
    by_id: OrderedDict[str, Session]

    def get(self, session_id: str | None) -> Session:
        """The session of a request."""
        session = self.by_id.get(session_id) if session_id else None
        return session or Session(self.scanner)

    def keep(self, session_id: str | None, session: Session) -> None:
        """Remember a session under the id that the server gave it."""
        if session_id:
            self.by_id[session_id] = session
            self.by_id.move_to_end(session_id)
        while len(self.by_id) > MAX_SESSIONS:
            self.by_id.popitem(last=False)


class McpRoute:
    """One server: its connections, and its sessions."""

    def __init__(self, name: str, server: McpServer, scanner: McpScanner) -> None:
        url = URL(server.url)
        self.name, self.path = name, url.raw_path or "/"
        key = read_credential(server.api_key_file, f"mcp.servers.{name}.api_key_file")
        self.upstream = HttpUpstream(str(url.origin()), server, key)
        self.sessions = Sessions(scanner, OrderedDict())

    def request(
        self, method: str, headers: CIMultiDict[str], body: bytes | None = None, query: str = ""
    ) -> UpstreamRequest:
        """A request to the server; what it answers must not be compressed, so that it can be scanned."""
        headers["Accept-Encoding"] = "identity"
        return UpstreamRequest(method, f"{self.path}?{query}" if query else self.path, headers, body)


class McpProxy:
    """Handles the requests below `/mcp/`."""

    def __init__(
        self, settings: Settings, scans: ScanService, gatekeeper: Gatekeeper, catalogue: Catalogue | None = None
    ) -> None:
        self._settings, self._gatekeeper, self._scans = settings, gatekeeper, scans
        self._routes = {
            name: McpRoute(name, server, McpScanner(settings, scans, name, catalogue))
            for name, server in settings.mcp.servers.items()
        }

    def handles(self, request: web.Request) -> bool:
        """Whether the path is one of a server; without servers none is."""
        return bool(self._routes) and request.rel_url.raw_path.startswith(PREFIX)

    async def close(self) -> None:
        """Close the connections to the servers."""
        for route in self._routes.values():
            await route.upstream.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Raises `RequestError`."""
        route = self._routes.get(request.rel_url.raw_path.removeprefix(PREFIX))
        if route is None:
            raise _NoSuchServer("There is no such MCP server (mcp.servers).")
        if request.method not in METHODS:
            raise _MethodNotAllowed("MCP is served with GET, POST and DELETE.")
        await self._gatekeeper.admit_inline(request)
        self._scans.admit()
        session = route.sessions.get(request.headers.get(SESSION_ID))
        proxies = self._settings.listen.trusted_proxies
        context = scan_context(request, request[DECISION_ID], "mcp", f"{PREFIX}{route.name}", proxies)
        reserved = self._settings.gateway.header
        headers, body = upstream_headers(request.headers, decoded=True, reserved=reserved), None
        if request.method == "POST":
            inspection = await session.inspect(await self._read(request), context, from_server=False, whole=True)
            if inspection.forward is None:
                return _answered(inspection.reply, request[DECISION_ID])
            body = inspection.forward
        upstream_request = route.request(request.method, headers, body, request.raw_path.partition("?")[2])
        async with route.upstream.send(upstream_request) as response:
            route.sessions.keep(response.headers.get(SESSION_ID) or request.headers.get(SESSION_ID), session)
            return await _Answer(self._settings, route, session, context, request).send(response)

    async def _read(self, request: web.Request) -> bytes:
        limits = self._settings.limits
        try:
            raw = await read_body(request, limits)
            decoded = await decode_body(request, raw, request.headers.get("Content-Type"), limits)
        except OverBudget:
            raise Unavailable("The scanner is busy.", retry_after=1) from None
        if len(decoded) > SMALL_BODY:
            await self._gatekeeper.charge(request, len(decoded))
        return decoded


class _Answer:
    """The answer of a server to one request of a client."""

    def __init__(
        self, settings: Settings, route: McpRoute, session: Session, context: ScanContext, request: web.Request
    ) -> None:
        self._limit, self._reserved = settings.limits.body_bytes, settings.gateway.header
        self._route, self._session, self._request = route, session, request
        self._context = replace(context, decision="")

    async def send(self, response: UpstreamResponse) -> web.StreamResponse:
        """Send it to the client."""
        headers = client_headers(response.headers)
        headers[DECISION] = self._request[DECISION_ID]
        media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media == "text/event-stream":
            if "Content-Encoding" in response.headers:
                raise UpstreamError("The server sent a compressed stream, which cannot be scanned.")
            headers.popall("Content-Length", None)  # an event may be replaced
            return await self._stream(response, headers)
        body = await self._read(response)
        checked = await self._check(body, response) if body.strip() else body
        if checked is not body:
            for name in ("Content-Length", "Content-Encoding", "Content-Type"):
                headers.popall(name, None)
            headers["Content-Type"] = "application/json"
        return web.Response(status=response.status, headers=headers, body=checked)

    async def _read(self, response: UpstreamResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._limit:
                raise UpstreamError("The server's answer is larger than limits.body_bytes.")
        return b"".join(chunks)

    async def _check(self, body: bytes, response: UpstreamResponse) -> bytes:
        """The body to send: the same object, unless it is refused."""
        coding, plain = response.headers.get("Content-Encoding"), body
        try:
            if coding is not None:
                plain = await asyncio.to_thread(json_body.inflate, body, coding, limit=self._limit)
        except BodyError as error:
            inspection = self._session.unreadable(body, error, self._context, from_server=True)
            return body if inspection.forward is body else inspection.forward or _nothing()
        if response.status >= 400 and not plain.lstrip().startswith((b"{", b"[")):
            # The text of an error is no message, but a client may show it to a model.
            text = plain.decode("utf-8", "replace")
            plain = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"message": text}}, json.LARGE)
        inspection = await self._session.inspect(plain, self._context, from_server=True)
        if inspection.reply is not None:
            await self._reply(inspection.reply)
        return body if inspection.forward is plain else inspection.forward or _nothing()

    async def _stream(self, response: UpstreamResponse, headers: Mapping[str, str]) -> web.StreamResponse:
        client = web.StreamResponse(status=response.status, headers=headers)
        scanner = EventScanner(self._session, self._context, self._reply)
        try:
            await client.prepare(self._request)
            async for chunk in whole_events(response.chunks(), self._limit):
                async for event in scanner.events(chunk):
                    await with_timeout(WRITE_TIMEOUT, client.write(event))
        except (UpstreamError, TimeoutError) as error:
            cause = error.detail if isinstance(error, UpstreamError) else "The client reads nothing."
            _log.warning("mcp_stream_cut", server=self._route.name, cause=cause)
            self._request.protocol.force_close()
        except ConnectionError:
            _log.info("client_closed", server=self._route.name)
        return client

    async def _reply(self, content: bytes) -> None:
        """Answer a request of the server that the client shall not see."""
        headers = upstream_headers(self._request.headers, decoded=True, reserved=self._reserved)
        for name in ("Last-Event-ID", "Content-Length"):
            headers.popall(name, None)
        headers["Content-Type"], headers["Accept"] = "application/json", "application/json, text/event-stream"
        try:
            async with self._route.upstream.send(self._route.request("POST", headers, content)):
                return
        except UpstreamError as error:
            _log.warning("mcp_reply_failed", server=self._route.name, cause=error.detail)


def _answered(reply: bytes | None, decision: str) -> web.Response:
    """The answer to a POST whose message does not pass: as the server would give it."""
    if reply is None:
        return web.Response(status=202, headers={DECISION: decision})
    return web.Response(body=reply, content_type="application/json", headers={DECISION: decision})


def _nothing() -> bytes:
    """In place of a body that is refused and answers no request."""
    return json.dumps(answer(None, None, Refusal("The answer of the server was refused.", "", UNSCANNED)))
