"""A question about a text, from its key to its record: what the scan door and the adapters in `compat` share.

In this order: the key (401), the rate (429), the body, the scan, the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from aiohttp import web

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RateLimited, RequestError, Unavailable
from sidecar.extraction import json_body
from sidecar.extraction.extraction import Extraction
from sidecar.limits import OverBudget
from sidecar.observability.metrics import ANSWERS
from sidecar.proxy.exchange import NOTHING_FOUND
from sidecar.response_scan.detector import ResponseDetector, Text
from sidecar.scan.engine import Engine
from sidecar.server.body import decode_body, read_body
from sidecar.server.caller import caller_context, is_monitored
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import DECISION, DECISION_ID, KEY_ID, TOO_SUSPICIOUS, UNSCANNED
from sidecar.types import Action, Decision, Finding, Label, LayerName, LayerReport, ScanRequest, Verdict
from sidecar.util.timeouts import with_timeout

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict and what follows from it: `allow`, `block` or `monitor`; `unscanned` names what nobody read."""

    verdict: Verdict
    action: str
    decision: str
    unscanned: str | None = None

    @property
    def blocked(self) -> bool:
        """Whether the answer is no."""
        return self.action == "block"

    @property
    def headers(self) -> dict[str, str]:
        """The decision id, and what was not scanned."""
        return {DECISION: self.decision} | ({UNSCANNED: self.unscanned} if self.unscanned else {})


class Desk:
    """Reads and answers questions under given settings.

    `obeyed`: who asks does as he is told, so that `mode: monitor` is honoured here; else the caller decides.
    """

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        gatekeeper: Gatekeeper,
        settings: Settings,
        *,
        entrypoint: str = "api",
        obeyed: bool = False,
        personal: RulesLayer | None = None,
    ) -> None:
        self.settings = settings
        self._personal = personal
        self._engine, self._decision_log, self._gatekeeper = engine, decision_log, gatekeeper
        self._entrypoint, self._obeyed = entrypoint, obeyed

    async def read(self, request: web.Request, key: str | None, parse: Callable[[json_body.JsonValue], T]) -> T:
        """What the body asks, once the key and the rate are in order. Raises `RequestError`."""
        await self._gatekeeper.admit(request, key)
        if not self._decision_log.healthy:
            raise Unavailable("The scan log cannot be written (log.required).", retry_after=5)
        limits = self.settings.limits
        try:
            raw = await read_body(request, limits)
            plain = await decode_body(request, raw, request.headers.get("Content-Type"), limits)
        except OverBudget:
            raise _busy() from None
        return parse(json_body.parse(plain, depth=limits.depth))

    async def judge(
        self, request: web.Request, wanted: ScanRequest, *, unread: str | None = None, thorough: bool = False
    ) -> Ruling:
        """Scan and record. `unread`: what the body holds that no layer reads, and the policy lets pass.

        Raises `RequestError` if it could not be scanned and the policy is closed.
        """
        verdict = await self._engine.scan(wanted, caller_context(request, thorough=thorough))
        open_ = self._obeyed and is_monitored(request, self.settings)
        ruling = _ruling(verdict, request[DECISION_ID], unread, monitored=open_)
        error = refusal(verdict) if verdict.failure and ruling.blocked else None
        self._keep(self._decision(request, wanted, ruling, error.status if error else 200))
        if error:
            raise error
        return ruling

    async def look(self, request: web.Request, texts: Sequence[Text], asked: Extraction) -> Ruling:
        """What a model has written, looked at as the inline door does (`responses`); recorded if something is found.

        `asked` is what it answers to, where that is known: what the user said himself is no find. A look longer than
        `scan.deadline` is none: it raises `Unavailable` where `failure.answer` is closed.
        """
        if self._personal is None or self.settings.responses == "off":
            return Ruling(NOTHING_FOUND, "allow", request[DECISION_ID])
        blocks = self.settings.responses == "block" and not (self._obeyed and is_monitored(request, self.settings))
        try:
            found = await with_timeout(self.settings.scan.deadline, self._found(self._personal, texts, asked))
        except TimeoutError:
            return self._unseen(request, closed=blocks and self.settings.failure.answer == "block")
        action = "allow" if not found else "block" if blocks else "flag"
        ANSWERS.labels(action).inc()
        ruling = Ruling(_of_answer(found, blocks=blocks), action, request[DECISION_ID])
        if found:
            self._keep(self._decision(request, ScanRequest(()), ruling, 200, entrypoint="answer"))
        return ruling

    async def _found(self, personal: RulesLayer, texts: Sequence[Text], asked: Extraction) -> tuple[Finding, ...]:
        detector = await ResponseDetector.create(personal, self.settings.answers, asked)
        return tuple(await detector.findings(texts))

    def _unseen(self, request: web.Request, *, closed: bool) -> Ruling:
        """An answer that could not be looked at in time: refused, or passed and named."""
        ANSWERS.labels("block" if closed else "unscanned").inc()
        failed = replace(_of_answer((), blocks=False), failure="deadline")
        action, unread = ("block", None) if closed else ("allow", "deadline")
        ruling = Ruling(failed, action, request[DECISION_ID], unread)
        self._keep(self._decision(request, ScanRequest(()), ruling, 503 if closed else 200, entrypoint="answer"))
        if closed:
            raise refusal(failed)
        return ruling

    def _keep(self, decision: Decision) -> None:
        """In the order in which they were made, as soon as what is at hand is done: no answer waits for its record."""
        asyncio.get_running_loop().call_soon(self._decision_log.record, decision)

    def _decision(
        self, request: web.Request, wanted: ScanRequest, ruling: Ruling, status: int, *, entrypoint: str | None = None
    ) -> Decision:
        text = "\n".join(segment.text for segment in wanted.segments)
        return Decision(
            id=ruling.decision,
            at=datetime.now(UTC),
            entrypoint=entrypoint or self._entrypoint,
            route=request.path,
            verdict=ruling.verdict,
            action=ruling.action,
            status=status,
            key_id=request.get(KEY_ID),
            model=wanted.model,
            length=len(text),
            segments=len(wanted.segments),
            digest=self._decision_log.digest(text),
            unscanned=ruling.unscanned,
            text=self._decision_log.text_for_log(wanted.segments, ruling.verdict),
        )


def _of_answer(found: tuple[Finding, ...], *, blocks: bool) -> Verdict:
    score = max((finding.score for finding in found), default=0.0)
    labels = {finding.label for finding in found}
    return Verdict(
        risk_score=score,
        action=Action.BLOCK if found and blocks else Action.ALLOW,
        threats=tuple(label for label in Label if label in labels),
        latency_ms=0,
        layer_used=LayerName.RULES,
        reports=(LayerReport(LayerName.RULES, score, found),),
    )


def _ruling(verdict: Verdict, decision: str, unread: str | None, *, monitored: bool) -> Ruling:
    if verdict.action is Action.ALLOW:
        return Ruling(verdict, "allow", decision, verdict.failure or unread)
    if monitored:
        return Ruling(verdict, "monitor", decision, verdict.failure or unread)
    return Ruling(verdict, "block", decision)


def refusal(verdict: Verdict) -> RequestError:
    """The error for a scan that could not be done."""
    if verdict.failure == "overload":
        return _busy()
    if verdict.failure == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads.", status=422)
    if verdict.failure == "budget":
        return BodyError("budget", TOO_SUSPICIOUS, status=422)
    return Unavailable(f"The prompt could not be scanned ({verdict.failure}).", retry_after=1)


def _busy() -> RequestError:
    return RateLimited("The scanner is busy; try again in 1 s.", retry_after=1)
