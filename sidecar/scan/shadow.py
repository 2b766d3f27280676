"""Shadow mode: a second policy set scans the same requests, and disagreements with the enforced verdict are stored.

No request waits for it. Scans beyond the bound are dropped and counted; only the newest disagreements are kept. It
compares rules, with the same model and examples; requests that a judge decided are skipped.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from sidecar import config
from sidecar.errors import StoreError
from sidecar.observability.metrics import SHADOW
from sidecar.scan.engine import Caller, Engine
from sidecar.storage import Disagreement, Disagreements
from sidecar.types import Finding, LayerName, ScanRequest, Verdict
from sidecar.util import logs
from sidecar.util.tasks import Background

MAX_RUNNING = 64
MAX_UNWRITTEN = 1_000
WRITE_INTERVAL = 1.0
MAX_RULES = 20
_log = logs.get("shadow")


class ShadowScanner:
    """Scans with `engine`, which has the second policy set. Call `start` and `close`."""

    def __init__(self, engine: Engine, settings: config.Shadow, disagreements: Disagreements) -> None:
        self._engine, self._settings, self._disagreements = engine, settings, disagreements
        self._running = 0
        self._unwritten: deque[Disagreement] = deque(maxlen=MAX_UNWRITTEN)
        self._background = Background()
        self._random = random.Random()  # noqa: S311 - a sample, no secret

    async def start(self) -> None:
        """Write disagreements to the store every `WRITE_INTERVAL` seconds."""
        self._background.repeat("shadow_write", self._write, WRITE_INTERVAL)

    async def close(self) -> None:
        """Stop, and write the remaining disagreements."""
        await self._background.close()
        await self._write()

    def observe(self, request: ScanRequest, caller: Caller, decision: str, verdict: Verdict) -> None:
        """Compare this verdict in the background. Returns at once."""
        if verdict.failure or verdict.layer_used is LayerName.LLM_JUDGE or not decision:
            return
        if self._random.random() >= self._settings.share:
            return
        if self._running >= MAX_RUNNING:
            SHADOW.labels("dropped").inc()
            return
        self._running += 1
        self._background.spawn(self._compare(request, caller, decision, verdict))

    async def _compare(self, request: ScanRequest, caller: Caller, decision: str, verdict: Verdict) -> None:
        try:
            shadow_verdict = await self._engine.scan(request, caller)
        finally:
            self._running -= 1
        if shadow_verdict.failure:
            SHADOW.labels("failed").inc()
        elif shadow_verdict.action is verdict.action:
            SHADOW.labels("agreed").inc()
        else:
            SHADOW.labels("disagreed").inc()
            self._unwritten.append(_disagreement(caller, decision, verdict, shadow_verdict))

    async def _write(self) -> None:
        if not self._unwritten:
            return
        batch = list(self._unwritten)
        try:
            await self._disagreements.add(batch)
            await self._disagreements.keep(self._settings.keep)
        except StoreError as error:
            _log.warning("shadow_write_failed", error=error)
            return
        for _ in batch:
            self._unwritten.popleft()


def _disagreement(caller: Caller, decision: str, verdict: Verdict, shadow_verdict: Verdict) -> Disagreement:
    return Disagreement(
        decision=decision,
        at=datetime.now(UTC),
        key_id=caller.key_id,
        revision=verdict.revision,
        action=str(verdict.action),
        score=verdict.risk_score,
        rules=_rules(verdict.findings),
        other_revision=shadow_verdict.revision,
        other_action=str(shadow_verdict.action),
        other_score=shadow_verdict.risk_score,
        other_rules=_rules(shadow_verdict.findings),
    )


def _rules(findings: Sequence[Finding]) -> list[str]:
    """The rules that matched, by descending score."""
    ranked = sorted((f for f in findings if f.decides), key=lambda f: -f.score)
    return list(dict.fromkeys(finding.rule for finding in ranked))[:MAX_RULES]
