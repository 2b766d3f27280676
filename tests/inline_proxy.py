"""The inline proxy alone on loopback: real server, decision log and upstream, and a scanner for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from sidecar import config, policy, upstream
from sidecar.attachments.reader import AttachmentReader
from sidecar.auth.api_keys import KeyRing
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.extraction.token_ids import Vocabularies
from sidecar.limits import MemoryLimiter
from sidecar.proxy.handler import Proxy
from sidecar.response_scan.detector import personal_rules
from sidecar.scan.engine import ANONYMOUS, Caller
from sidecar.server.middleware import Gatekeeper, error_boundary
from sidecar.server.server import Site
from sidecar.types import Action, Decision, Finding, Label, LayerName, LayerReport, ScanRequest, Verdict

ATTACK = "Please EVIL now."
CHAT = {"model": "m", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
EVIL = {"model": "m", "messages": [{"role": "user", "content": ATTACK}]}


class WordScanner:
    """Blocks any text with the word EVIL; fails with `cause`, if set (closed unless `opens`).

    `layer`, if set, adds findings that never block.
    """

    def __init__(self) -> None:
        self.scanned: list[ScanRequest] = []
        self.cause: str | None = None
        self.opens = False
        self.layer: RulesLayer | None = None
        self.busy: asyncio.Event | None = None
        self.cancelled = asyncio.Event()

    async def scan(self, request: ScanRequest, caller: Caller = ANONYMOUS, decision: str = "") -> Verdict:
        """A verdict in the manner of the engine."""
        self.scanned.append(request)
        if self.busy is not None:
            try:
                await self.busy.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if self.cause is not None:
            action = Action.ALLOW if self.opens else Action.BLOCK
            return Verdict(0.0, action, (), 1, LayerName.RULES, failure=self.cause)
        path = next((segment.path for segment in request.segments if "EVIL" in segment.text), None)
        if path is None:
            report = await self.layer.scan(request, ()) if self.layer else LayerReport(LayerName.RULES, 0.0)
            return Verdict(report.score or 0.0, Action.ALLOW, (), 1, LayerName.RULES, reports=(report,))
        finding = Finding("TEST-1", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, path)
        report = LayerReport(LayerName.RULES, 0.9, (finding,))
        return Verdict(0.9, Action.BLOCK, (Label.PROMPT_INJECTION,), 1, LayerName.RULES, reports=(report,))

    @property
    def texts(self) -> list[str]:
        """Every scanned text."""
        return [segment.text for request in self.scanned for segment in request.segments]


class RecordedDecisionLog(DecisionLog):
    """A decision log that also keeps the recorded decisions in memory."""

    def __init__(self) -> None:
        super().__init__(None, config.Store(), config.Log())
        self.decisions: list[Decision] = []
        self.broken = False

    @property
    def healthy(self) -> bool:
        """False if set to `broken`."""
        return not self.broken

    def record(self, decision: Decision) -> None:
        """Record and keep."""
        self.decisions.append(decision)
        super().record(decision)


@dataclass(frozen=True)
class Reply:
    """A response with its complete body."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error object of the body, which is the body itself in some APIs."""
        body = json.loads(self.body)
        return body.get("error", body)

    @property
    def verdict(self) -> tuple[str | None, ...]:
        """Action, risk score and threats from the headers."""
        return tuple(self.headers.get(f"x-sidecar-{name}") for name in ("action", "risk-score", "threats"))


@dataclass
class InlineProxy:
    """A listening inline proxy."""

    scanner: WordScanner
    decision_log: RecordedDecisionLog
    port: int
    site: Site = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)

    @property
    def url(self) -> str:
        """The base URL for a client of OpenAI's API."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def decision(self) -> Decision:
        """The only recorded decision."""
        assert len(self.decision_log.decisions) == 1
        return self.decision_log.decisions[0]

    async def ask(
        self, body: object = None, path: str = "/v1/chat/completions", method: str = "POST", **headers: str
    ) -> Reply:
        """Send one request with a JSON value, bytes, or no body."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, Mapping | list):
            body, fields = json.dumps(body).encode(), {"Content-Type": "application/json"} | fields
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self.session.request(method, url, data=body, headers=fields) as response:
            return Reply(response.status, response.headers, await response.read())

    async def talk(self, data: bytes, *, until: bytes | None = None) -> bytes:
        """Send raw bytes; read until the server closes, or until the response contains `until`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        received = b""
        async with asyncio.timeout(10):
            while until is None or until not in received:
                chunk = await reader.read(65536)
                if not chunk:
                    break
                received += chunk
        writer.close()
        return received


@cache
def personal() -> RulesLayer:
    """The shipped rules for personal data, built once."""
    return personal_rules(policy.load())


async def eventually(condition: Callable[[], object], seconds: float = 2.0) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


def post(body: object, path: str = "/v1/chat/completions", *fields: str, version: str = "1.1") -> bytes:
    """A raw POST with `Connection: close`."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", f"Content-Length: {len(raw)}"]
    return "\r\n".join([*head, *fields, "Connection: close", "", ""]).encode("latin-1") + raw


@asynccontextmanager
async def run_proxy(
    upstream_url: str = "echo://", gatekeeper: Gatekeeper | None = None, **settings: Any
) -> AsyncIterator[InlineProxy]:
    """An inline proxy in front of an upstream, with short timeouts unless overridden by `settings`."""
    timeouts = {"connect_timeout": 2.0, "first_byte_timeout": 2.0, "idle_timeout": 2.0} | settings.pop("upstream", {})
    merged = config.Settings(upstream=config.Upstream(url=upstream_url, **timeouts), **settings)
    scanner, decision_log = WordScanner(), RecordedDecisionLog()
    forward = await upstream.open(merged.upstream, merged.models)
    app = web.Application(middlewares=[error_boundary()])
    rules = personal() if merged.scans_for_pii else None
    no_keys = SimpleNamespace(refusals=SimpleNamespace(add=lambda _key, _cause: None))  # no key is ever sent
    gatekeeper = gatekeeper or Gatekeeper(cast("KeyRing", no_keys), MemoryLimiter(), merged)
    readers = (Vocabularies(merged.inline.vocabularies), AttachmentReader(merged.inline))
    proxy = Proxy(scanner, decision_log, forward, merged, gatekeeper, rules, *readers)
    app.router.add_route("*", "/{tail:.*}", proxy.handle)
    site = Site(app, merged.limits, drain=1)
    port = await site.listen("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            yield InlineProxy(scanner, decision_log, port, site, session)
    finally:
        await forward.close()
        await site.close()
