"""One `/metrics` and one `/ready` for all worker processes, whichever of them is asked.

Each worker that accepts connections publishes a report, its series and its problems, in shared memory once a
second and whenever it is asked. Counters and histograms are sums; they include those of workers that died, since a
worker begins with the counts that its predecessor published, so a sum never falls. Gauges are combined over the
workers that run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from sidecar.observability.alert_history import SentAlert, newest
from sidecar.observability.metrics import OVER_WORKERS, REGISTRY, WORKERS_MISSING
from sidecar.util import json
from sidecar.util.shared_slots import SharedSlots

REPORT_INTERVAL = 1.0
STALE = 5.0
"""Seconds after which a worker that published nothing is taken to be dead or stuck."""
Series = dict[str, list[tuple[str, dict[str, str], float]]]
"""The samples of each family: name, labels and value."""


@dataclass(frozen=True, slots=True)
class Status:
    """Readiness of one worker, or of all. `starting`: no connections are accepted yet. `alerts`: the newest first."""

    problems: Sequence[str] = ()
    degraded: Sequence[str] = ()
    starting: bool = False
    alerts: Sequence[SentAlert] = ()


@dataclass(frozen=True, slots=True)
class _Report:
    status: Status
    at: float
    series: Series

    @property
    def is_running(self) -> bool:
        return time.monotonic() - self.at < STALE


class WorkerReports:
    """The reports of all workers, as seen and written by worker `number`. Create it in that worker, after the fork."""

    def __init__(self, slots: SharedSlots, number: int) -> None:
        self._slots, self._number = slots, number
        self.is_first = number == 0
        """Whether this worker does what one of them is to do."""
        earlier = self._read(number)
        self._earlier = _counts(earlier.series) if earlier else {}

    def publish(self, status: Status) -> None:
        """Write the report of this worker, unless it is starting."""
        if status.starting:
            return
        series = _combine([_own_series(), self._earlier])
        report = {"status": [status.problems, status.degraded], "at": time.monotonic(), "series": series}
        report["alerts"] = [list(alert) for alert in status.alerts]
        self._slots.write(self._number, json.dumps(report, json.LARGE))

    def status(self) -> Status:
        """The readiness of all: that of the workers that run, and a degradation for each that does not."""
        reports = self._all()
        running = [report.status for report in reports.values() if report.is_running]
        missing = [f"worker {number} does not run, or does not react" for number in self._missing(reports)]
        if not running:
            return Status(["starting"], missing, starting=True)
        problems = dict.fromkeys(problem for status in running for problem in status.problems)
        degraded = dict.fromkeys(problem for status in running for problem in status.degraded)
        alerts = tuple(newest(*(status.alerts for status in running)))
        return Status(list(problems), [*degraded, *missing], alerts=alerts)

    @property
    def is_any_running(self) -> bool:
        """Whether some worker accepts connections."""
        return any(report.is_running for report in self._all().values())

    def metrics(self) -> bytes:
        """The series of all workers in Prometheus' text format."""
        if not (reports := self._all()):
            return generate_latest(REGISTRY)
        gauges = [report.series for report in reports.values() if report.is_running] or [_own_series()]
        combined = _combine(gauges) | _combine([_counts(report.series) for report in reports.values()])
        combined[WORKERS_MISSING] = [(WORKERS_MISSING, {}, len(self._missing(reports)))]
        return generate_latest(_Families(combined))

    def _all(self) -> dict[int, _Report]:
        read = ((number, self._read(number)) for number in range(self._slots.count))
        return {number: report for number, report in read if report is not None}

    def _read(self, number: int) -> _Report | None:
        content = self._slots.read(number)
        if not content:
            return None
        read = json.loads(content, json.LARGE)
        alerts = [SentAlert(*alert) for alert in read["alerts"]]
        problems, degraded = read["status"]
        return _Report(Status(problems, degraded, alerts=alerts), read["at"], read["series"])

    def _missing(self, reports: Mapping[int, _Report]) -> list[int]:
        """The workers that do not run, without the one that asks."""
        return [
            number
            for number in range(self._slots.count)
            if number != self._number and not (number in reports and reports[number].is_running)
        ]


class _Families(Collector):
    """Our families with other samples."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        for family in REGISTRY.collect():
            family.samples = [Sample(*sample) for sample in self._series.get(family.name, [])]
            yield family


def _own_series() -> Series:
    return {
        family.name: [(sample.name, dict(sample.labels), sample.value) for sample in family.samples]
        for family in REGISTRY.collect()
    }


def _counts(series: Series) -> Series:
    """The counters and histograms, which outlive their process."""
    return {name: samples for name, samples in series.items() if name not in OVER_WORKERS}


def _combine(reports: Iterable[Series]) -> Series:
    """The samples of all, those of the same name and labels as one."""
    found: dict[str, dict[tuple[object, ...], tuple[str, dict[str, str], list[float]]]] = {}
    for report in reports:
        for family, samples in report.items():
            known = found.setdefault(family, {})
            for name, labels, value in samples:
                known.setdefault((name, *sorted(labels.items())), (name, labels, []))[2].append(value)
    return {
        family: [(name, labels, _operation(family, name)(values)) for name, labels, values in known.values()]
        for family, known in found.items()
    }


def _operation(family: str, name: str) -> Callable[[Iterable[float]], float]:
    """How the values of one series over all workers become one; the time of creation is the earliest."""
    return min if name.endswith("_created") else OVER_WORKERS.get(family, sum)
