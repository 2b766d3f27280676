"""Twin of sidecar/observability/watcher.py: counters and states move, and what is sent is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Gauge

from sidecar import config
from sidecar.observability import watcher
from sidecar.observability.metrics import DECISIONS, UNSCANNED
from sidecar.observability.watcher import Alert, Watcher
from sidecar.policy.reductions import Reduction


@pytest.fixture(autouse=True)
def judge_budget(monkeypatch: pytest.MonkeyPatch) -> Gauge:
    """A gauge of its own: a judge of another test in the same process still reports its budget in the common one."""
    gauge = Gauge("judge_budget", "The share that is left.", ("kind",), registry=None)
    monkeypatch.setattr(watcher, "JUDGE_BUDGET", gauge)
    return gauge


class Process:
    """What a watcher looks at, and what it sends."""

    def __init__(self, **settings: Any) -> None:
        self.problems: list[str] = []
        self.full = 0.0
        self.reductions: list[Reduction] = []
        self.sent: list[Alert] = []
        self.watcher = Watcher(
            config.Alerts(**settings),
            lambda: self.problems,
            self.fullness,
            lambda: self.reductions,
            self.sent.append,
            self.describe,
        )

    async def fullness(self) -> float:
        """The used share of the log."""
        return self.full

    async def describe(self, alert: Alert) -> Alert:
        """The alert with a link."""
        return replace(alert, link="https://sidecar.example/")

    async def names(self) -> list[tuple[str, str]]:
        """What the next look sends."""
        self.sent.clear()
        await self.watcher.look()
        return [(alert.name, alert.state) for alert in self.sent]


async def test_a_process_that_is_well_sends_nothing() -> None:
    """Blocks below the bound, malformed bodies, and images that pass by default are nothing to report."""
    process = Process()
    DECISIONS.labels("inline", "block").inc(3)
    DECISIONS.labels("inline", "refuse").inc(1000)
    UNSCANNED.labels("media").inc(5)
    assert [await process.names() for _ in range(3)] == [[], [], []]


async def test_many_blocks_are_reported_once() -> None:
    """With their number; the pause keeps the next look quiet."""
    process = Process(blocks=10)
    await process.names()
    DECISIONS.labels("inline", "block").inc(9)
    assert await process.names() == []
    DECISIONS.labels("api", "monitor").inc(1)
    assert await process.names() == [("block_spike", "firing")]
    assert (process.sent[0].details["blocks"], process.sent[0].link) == (10, "https://sidecar.example/")
    DECISIONS.labels("inline", "block").inc(50)
    assert await process.names() == []


async def test_requests_that_were_forwarded_unscanned_are_reported_by_cause() -> None:
    """Each time, but for the pause."""
    process = Process(pause="1s")
    UNSCANNED.labels("deadline").inc(2)
    assert await process.names() == [("fail_open", "firing")]
    assert process.sent[0].details == {"deadline": 2.0}
    assert await process.names() == []


async def test_a_degradation_that_lasts_begins_and_ends() -> None:
    """One that is gone at the next look is none."""
    process = Process()
    process.problems = ["Redis does not answer"]
    assert await process.names() == []
    process.problems = []
    assert await process.names() == []
    process.problems = ["Redis does not answer"]
    await process.names()
    assert await process.names() == [("degraded", "firing")]
    assert "Redis" in process.sent[0].summary
    assert await process.names() == []
    process.problems = []
    assert await process.names() == [("degraded", "resolved")]
    assert await process.names() == []


async def test_a_spent_budget_and_a_full_log_are_states(judge_budget: Gauge) -> None:
    """They are reported at their beginning and at their end."""
    process = Process()
    process.full = 0.95
    judge_budget.labels("calls").set(0.0)
    assert await process.names() == [("budget_spent", "firing"), ("log_full", "firing")]
    assert "95%" in process.sent[1].summary
    judge_budget.labels("calls").set(1.0)
    process.full = 0.2
    assert await process.names() == [("budget_spent", "resolved"), ("log_full", "resolved")]
    process.full = 0.95
    assert await process.names() == [], "within the pause"


@pytest.mark.parametrize("name", ["fail_open", "log_full"])
async def test_only_the_chosen_events_are_sent(name: str) -> None:
    """`alerts.events` leaves the others out."""
    process = Process(events=(name,))
    process.full = 1.0
    UNSCANNED.labels("all").inc()
    assert await process.names() == [(name, "firing")]


async def test_reduced_protection_is_reported_with_what_reduces_it() -> None:
    """Once, again when something is added to it, and its end."""
    process = Process(pause="1s")
    process.reductions = [Reduction("mode", "mode: monitor forwards everything, attacks too")]
    assert await process.names() == [("protection_reduced", "firing")]
    assert process.sent[0].summary == "mode: monitor forwards everything, attacks too"
    assert process.sent[0].details == {"reasons": ["mode"]}
    assert await process.names() == []
    process.reductions += [Reduction("threshold", "scan.threshold: 1 blocks hardly anything")]
    process.watcher._last.clear()  # the pause is over
    assert await process.names() == [("protection_reduced", "firing")]
    assert process.sent[0].details == {"reasons": ["mode", "threshold"]}
    process.reductions = process.reductions[:1]
    assert await process.names() == []
    process.reductions = []
    assert await process.names() == [("protection_reduced", "resolved")]
