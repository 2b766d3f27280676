"""Tests of the common metrics and readiness of several workers; real processes are in runtime/test_workers.py."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families as parse

from sidecar import __version__
from sidecar.observability.alert_history import SentAlert
from sidecar.observability.metrics import (
    CONNECTIONS,
    DECISIONS,
    DEPENDENCY_UP,
    GENERATION,
    JUDGE_BUDGET,
    LOG_QUEUE,
    OVER_WORKERS,
    READY,
    REGISTRY,
    SCAN_SECONDS,
)
from sidecar.observability.worker_reports import Status, WorkerReports
from sidecar.util import json
from sidecar.util.shared_slots import HALF_BYTES, SharedSlots

HELD_BACK = {"action": "block", "door": "api"}
WRITTEN = "sidecar_decisions_total"


def own(name: str, labels: Mapping[str, str] | None = None) -> float:
    """A series of this process."""
    return REGISTRY.get_sample_value(name, dict(labels or {})) or 0.0


def common(reports: WorkerReports, name: str, labels: Mapping[str, str] | None = None) -> float:
    """The same over all workers."""
    samples = [sample for family in parse(reports.metrics().decode()) for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == name and sample.labels == (labels or {})]
    assert len(found) == 1
    return found[0]


def make_stale(slots: SharedSlots, number: int) -> None:
    """Let the report of a worker be as old as if it had died a minute ago."""
    report = json.loads(slots.read(number))
    slots.write(number, json.dumps({**report, "at": time.monotonic() - 60}, json.LARGE))


def test_counters_and_histograms_are_sums_and_gauges_what_they_say() -> None:
    """Two workers count in other processes: the scrape of either has the sum, and one series for each set of labels."""
    slots = SharedSlots(2)
    DECISIONS.labels("api", "block").inc(3)
    SCAN_SECONDS.labels("api").observe(0.2)
    first = WorkerReports(slots, 0)
    first.publish(Status())
    child = os.fork()
    if not child:
        DECISIONS.labels("api", "block").inc(4)
        SCAN_SECONDS.labels("api").observe(0.2)
        WorkerReports(slots, 1).publish(Status())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert common(first, WRITTEN, HELD_BACK) == 2 * own(WRITTEN, HELD_BACK) + 4
    assert common(first, "sidecar_scan_seconds_count", {"door": "api"}) == (
        2 * own("sidecar_scan_seconds_count", {"door": "api"}) + 1
    )
    assert common(first, "sidecar_build_info", {"version": __version__}) == 1
    assert common(first, "sidecar_workers_missing") == 0


def test_gauges_are_what_their_words_say() -> None:
    """Ready and reachable if all are; what is in use is added up; what is left of a budget is the least."""
    slots = SharedSlots(2)
    first = WorkerReports(slots, 0)
    child = os.fork()
    if not child:
        first.publish(set_gauges(0))
        WorkerReports(slots, 1).publish(set_gauges(1))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    samples = [sample for family in parse(first.metrics().decode()) for sample in family.samples]
    found = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert {name: found[name] for name in GAUGES} == {name: together for name, (_, _, together) in GAUGES.items()}


GAUGES = {
    ("sidecar_ready",): (1, 0, 0),
    ("sidecar_dependency_up", "store"): (0, 1, 0),
    ("sidecar_log_queue",): (2, 3, 5),
    ("sidecar_connections",): (5, 7, 12),
    ("sidecar_generation",): (4, 2, 4),
    ("sidecar_judge_budget_left_ratio", "calls"): (0.5, 0.25, 0.25),
}
"""What the one worker says, the other, and both together."""


def set_gauges(worker: int) -> Status:
    """Set the gauges of this process to those of a worker. Only in a child: these are for good."""
    known = {"sidecar_ready": READY, "sidecar_dependency_up": DEPENDENCY_UP, "sidecar_log_queue": LOG_QUEUE}
    known |= {"sidecar_connections": CONNECTIONS, "sidecar_generation": GENERATION}
    DEPENDENCY_UP.in_use = lambda name: name == "store"
    known |= {"sidecar_judge_budget_left_ratio": JUDGE_BUDGET}
    for (name, *labels), values in GAUGES.items():
        gauge = known[name].labels(*labels) if labels else known[name]
        gauge.set_function(lambda value=values[worker]: value)
    DEPENDENCY_UP.in_use = lambda _name: True  # type: ignore[method-assign]  # a test before may have none in use
    return Status()


def test_every_gauge_says_how_workers_add_up() -> None:
    """A gauge that was made in another way would be a sum without a word about it, or be lost with its worker."""
    assert {family.name for family in REGISTRY.collect() if family.type == "gauge"} == set(OVER_WORKERS)


def test_a_sum_never_falls_when_a_worker_dies_and_another_takes_its_place() -> None:
    """The counts of the dead worker stay while it is missing, and its successor begins with them."""
    slots = SharedSlots(2)
    DECISIONS.labels("api", "block").inc(2)
    first, second = WorkerReports(slots, 0), WorkerReports(slots, 1)
    first.publish(Status())
    second.publish(Status())
    before = common(first, WRITTEN, HELD_BACK)
    make_stale(slots, 1)
    assert common(first, WRITTEN, HELD_BACK) == before
    assert common(first, "sidecar_workers_missing") == 1
    successor = WorkerReports(slots, 1)
    successor.publish(Status())
    assert common(first, WRITTEN, HELD_BACK) == before + own(WRITTEN, HELD_BACK)
    assert common(first, "sidecar_workers_missing") == 0


def test_readiness_is_that_of_all_workers() -> None:
    """Problems of any worker that runs forbid traffic; one that does not run is a degradation, and takes none."""
    slots = SharedSlots(2)
    first, second = WorkerReports(slots, 0), WorkerReports(slots, 1)
    assert first.status().starting
    first.publish(Status())
    assert first.status() == Status([], ["worker 1 does not run, or does not react"])
    second.publish(Status(["scan log cannot be written"], ["store away"]))
    assert first.status() == Status(["scan log cannot be written"], ["store away"])
    second.publish(Status([], ["store away"]))
    first.publish(Status([], ["store away"]))
    assert first.status() == Status([], ["store away"])
    make_stale(slots, 1)
    assert first.status() == Status([], ["store away", "worker 1 does not run, or does not react"])


def test_a_worker_that_starts_says_nothing() -> None:
    """It takes no connections: its own problem must not take the others out of traffic."""
    slots = SharedSlots(2)
    first, second = WorkerReports(slots, 0), WorkerReports(slots, 1)
    first.publish(Status())
    second.publish(Status(["starting"], starting=True))
    assert slots.read(1) == b""
    assert second.status().problems == []
    assert common(second, "sidecar_workers_missing") == 0


def test_a_report_fits_into_its_slot_many_times() -> None:
    """All series together are far smaller than the bound of a slot."""
    slots = SharedSlots(1)
    WorkerReports(slots, 0).publish(Status())
    assert 1000 < len(slots.read(0)) < HALF_BYTES / 4


def test_the_newest_alerts_are_those_of_all_workers() -> None:
    """Whichever is asked; a test that one worker sent says that the receiver works."""
    slots = SharedSlots(2)
    failed = SentAlert(1.0, "block_spike", "firing", "failed", "15 blocks", "HTTP 503")
    test = SentAlert(2.0, "test", "firing", "sent")
    first = WorkerReports(slots, 0)
    first.publish(Status(alerts=[failed]))
    WorkerReports(slots, 1).publish(Status(alerts=[test]))
    assert first.status().alerts == (test, failed)
