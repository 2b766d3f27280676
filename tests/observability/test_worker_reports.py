"""Tests of the common metrics and readiness of several workers; real processes are in runtime/test_workers.py."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families as parse

from sidecar import __version__
from sidecar.observability.metrics import DECISIONS, REGISTRY, SCAN_SECONDS
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
