"""A second policy set beside the first: sees the same, decides nothing, and its disagreement is written down.

Nobody waits for it. What it has no room for is left out and counted; only so many of its newest disagreements are
kept. Its patterns are compared, on the same model and examples; where a judge has decided there is nothing to compare.
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

PENDING = 64
WAITING = 1_000
WRITE_EVERY = 1.0
MOST_RULES = 20
_log = logs.get("shadow")


class Shadow:
    """Watches with `engine`, which has the second policy set. `start` and `close` it."""

    def __init__(self, engine: Engine, settings: config.Shadow, disagreements: Disagreements) -> None:
        self._engine, self._settings, self._disagreements = engine, settings, disagreements
        self._running = 0
        self._found: deque[Disagreement] = deque(maxlen=WAITING)
        self._background = Background()
        self._chance = random.Random()  # noqa: S311 - a sample, no secret

    async def start(self) -> None:
        """Write down what is found from time to time."""
        self._background.repeat("shadow_write", self._write, WRITE_EVERY)

    async def close(self) -> None:
        """Stop, and write what was found."""
        await self._background.close()
        await self._write()

    def watch(self, request: ScanRequest, caller: Caller, verdict: Verdict) -> None:
        """Look at what was decided. Returns at once."""
        if verdict.failure or verdict.layer_used is LayerName.LLM_JUDGE or not caller.decision:
            return
        if self._chance.random() >= self._settings.share:
            return
        if self._running >= PENDING:
            SHADOW.labels("dropped").inc()
            return
        self._running += 1
        self._background.spawn(self._compare(request, caller, verdict))

    async def _compare(self, request: ScanRequest, caller: Caller, verdict: Verdict) -> None:
        try:
            other = await self._engine.scan(request, caller)
        finally:
            self._running -= 1
        if other.failure:
            SHADOW.labels("failed").inc()
        elif other.action is verdict.action:
            SHADOW.labels("agreed").inc()
        else:
            SHADOW.labels("disagreed").inc()
            self._found.append(_disagreement(caller, verdict, other))

    async def _write(self) -> None:
        if not self._found:
            return
        batch = list(self._found)
        try:
            await self._disagreements.add(batch)
            await self._disagreements.keep(self._settings.keep)
        except StoreError as error:
            _log.warning("shadow_write_failed", error=error)
            return
        for _ in batch:
            self._found.popleft()


def _disagreement(caller: Caller, verdict: Verdict, other: Verdict) -> Disagreement:
    return Disagreement(
        decision=caller.decision,
        at=datetime.now(UTC),
        key_id=caller.key_id,
        revision=verdict.revision,
        action=str(verdict.action),
        score=verdict.risk_score,
        rules=_rules(verdict.findings),
        other_revision=other.revision,
        other_action=str(other.action),
        other_score=other.risk_score,
        other_rules=_rules(other.findings),
    )


def _rules(findings: Sequence[Finding]) -> list[str]:
    """The rules that were met, the weightiest first."""
    ranked = sorted((f for f in findings if f.decides), key=lambda f: -f.score)
    return list(dict.fromkeys(finding.rule for finding in ranked))[:MOST_RULES]
