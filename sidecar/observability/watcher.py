"""Alerts: what has happened to the protection since the last look, by the process's own metrics and state.

Two are about counts: many more blocks than before, and requests forwarded unscanned although they should not have to
be. The others are states, which are reported when they begin and when they end. Each alert is sent at most once in
`alerts.pause`; a state that ended within that time and began again is not reported twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

from sidecar import config
from sidecar.config.outbound import AlertName
from sidecar.observability.metrics import DECISIONS, JUDGE_BUDGET, UNSCANNED
from sidecar.policy.reductions import Reduction

WINDOW, HISTORY = 300.0, 3_900.0
"""Seconds of the latest blocks, and of all that are compared with them."""
BUDGET_LEFT, LOG_LEFT = 0.05, 0.1
OPEN_BY_DEFAULT = {"media", "reference"}
"""Causes of requests forwarded unscanned that `failure.input` lets through by default."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One message. `state`: `firing` or `resolved`; `details`: numbers and plain words, no text of a prompt.

    `link`: where to look on the dashboard.
    """

    name: AlertName | Literal["test"]
    summary: str
    state: str = "firing"
    severity: str = "warning"
    details: dict[str, object] = field(default_factory=dict)
    link: str | None = None


Fullness = Callable[[], Awaitable[float]]
Problems = Callable[[], Sequence[str]]
Reductions = Callable[[], Sequence[Reduction]]
Describe = Callable[[Alert], Awaitable[Alert]]


async def as_it_is(alert: Alert) -> Alert:
    """The alert without anything added."""
    return alert


class Watcher:
    """Looks at the process every `alerts.interval` and hands on what is to be sent.

    `problems`: what keeps it from serving or degrades it, now. `fullness`: the used share of the scan log's bounds.
    `reductions`: what lets more pass than the defaults. `describe`: adds to an alert what it is about.
    """

    def __init__(
        self,
        settings: config.Alerts,
        problems: Problems,
        fullness: Fullness,
        reductions: Reductions,
        send: Callable[[Alert], None],
        describe: Describe = as_it_is,
    ) -> None:
        self._settings, self._problems, self._fullness, self._send = settings, problems, fullness, send
        self._reductions, self._reported, self._describe = reductions, frozenset[str](), describe
        self._history: deque[tuple[float, float]] = deque()
        self._unscanned = _unscanned()
        self._firing: set[str] = set()
        self._had_problems = False
        self._last: dict[str, float] = {}

    async def look(self) -> None:
        """Compare with the last look, and send what is new."""
        now = monotonic()
        states = [*self._states(await self._fullness()), self._reduced()]
        for alert in [*self._blocks(now), *self._forwarded(), *states]:
            if alert.name in self._settings.events:
                await self._pass_on(alert, now)

    async def _pass_on(self, alert: Alert, now: float) -> None:
        if alert.state == "resolved":
            if alert.name in self._firing:
                self._firing.discard(alert.name)
                self._send(await self._describe(alert))
            return
        if alert.name in self._firing or now - self._last.get(alert.name, -self._settings.pause) < self._settings.pause:
            return
        self._last[alert.name] = now
        if alert.name in _STATES:
            self._firing.add(alert.name)
        if alert.name == "protection_reduced":
            self._reported = frozenset(reduction.text for reduction in self._reductions())
        self._send(await self._describe(alert))

    def _blocks(self, now: float) -> Iterator[Alert]:
        """More than `blocks` in five minutes, and `block_factor` times as many as in such a time of the last hour."""
        self._history.append((now, _blocked()))
        while self._history[0][0] < now - HISTORY:
            self._history.popleft()
        recent = next(count for at, count in self._history if at >= now - WINDOW)
        latest, before = _blocked() - recent, recent - self._history[0][1]
        spent = max(now - WINDOW - self._history[0][0], 0.0)
        usual = before * WINDOW / spent if spent > WINDOW else before
        if latest >= self._settings.blocks and latest >= self._settings.block_factor * usual:
            words = f"{latest:.0f} blocks within five minutes, {usual:.0f} are usual"
            yield Alert("block_spike", words, details={"blocks": latest, "usual": round(usual, 1)})

    def _forwarded(self) -> Iterator[Alert]:
        before, self._unscanned = self._unscanned, _unscanned()
        new = {cause: count - before.get(cause, 0.0) for cause, count in self._unscanned.items()}
        causes = {cause: count for cause, count in new.items() if count > 0}
        if causes:
            words = ", ".join(f"{cause} {count:.0f}" for cause, count in sorted(causes.items()))
            yield Alert("fail_open", f"requests were forwarded unscanned: {words}", details=dict(causes))

    def _reduced(self) -> Alert:
        """Fires again when something is added to what was reported."""
        reductions = self._reductions()
        texts = frozenset(reduction.text for reduction in reductions)
        self._reported &= texts
        if texts - self._reported:
            self._firing.discard("protection_reduced")
        words = "; ".join(reduction.text for reduction in reductions)[:1_000]
        alert = _state("protection_reduced", bool(reductions), words, "nothing lets more pass than the defaults")
        return replace(alert, details={"reasons": sorted({reduction.reason for reduction in reductions})})

    def _states(self, fullness: float) -> Iterator[Alert]:
        problems = list(self._problems())
        # One that is gone at the next look is a blip, such as a connection that was retried.
        lasts, self._had_problems = bool(problems) and self._had_problems, bool(problems)
        if lasts or not problems:
            yield _state("degraded", lasts, "; ".join(problems)[:1_000], "no problem is left", "critical")
        left = _budget_left()
        yield _state("budget_spent", left < BUDGET_LEFT, "the judge's budget is spent", "the judge has budget again")
        words = f"the scan log is {fullness:.0%} full; beyond its bounds decisions are lost or deleted early"
        yield _state("log_full", fullness >= 1 - LOG_LEFT, words, "the scan log has room again")


_STATES: frozenset[AlertName] = frozenset({"degraded", "budget_spent", "log_full", "protection_reduced"})


def _state(name: AlertName, holds: bool, words: str, over: str, severity: str = "warning") -> Alert:
    return Alert(name, words, severity=severity) if holds else Alert(name, over, "resolved", severity)


def _blocked() -> float:
    """Blocks of scans and, in monitor mode, what would have been one. What is refused without a scan is none."""
    samples = (sample for family in DECISIONS.collect() for sample in family.samples)
    return sum(sample.value for sample in samples if sample.labels.get("action") in {"block", "monitor"})


def _unscanned() -> dict[str, float]:
    samples = (sample for family in UNSCANNED.collect() for sample in family.samples)
    causes = {sample.labels["cause"]: sample.value for sample in samples}
    return {cause: count for cause, count in causes.items() if cause not in OPEN_BY_DEFAULT}


def _budget_left() -> float:
    """The smallest share that is left; all of it without a judge."""
    return min((sample.value for family in JUDGE_BUDGET.collect() for sample in family.samples), default=1.0)
