"""The goals and their measured values: the median of the rounds' ratios, with minimum and maximum."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

DIRECT, BARE, RULES, SEMANTIC, TWO = "direct", "bare aiohttp", "sidecar", "sidecar + semantic", "sidecar, 2 workers"
SINGLE_RULE = "sidecar, one rule"
"""Not a goal, and no protection: the overhead of the proxy with almost nothing to match."""
LITELLM, FILTER = "LiteLLM", "LiteLLM + content filter"
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: its name, the bound, whether that is a lower bound, and the values (one per round, or one)."""

    what: str
    bound: float
    values: Sequence[float]
    least: bool = False
    unit: str = ""

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        """Whether the median is within the bound."""
        return self.value >= self.bound if self.least else self.value <= self.bound

    def row(self) -> list[str]:
        """A table row."""
        span = f" ({_short(min(self.values))} to {_short(max(self.values))})" if len(self.values) > 1 else ""
        sign = ">=" if self.least else "<="
        return [
            self.what,
            f"{sign} {_short(self.bound)}{self.unit}",
            f"{_short(self.value)}{self.unit}{span}",
            "yes" if self.met else "no",
        ]


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def ratios(rows: Results, first: str, other: str, figure: str) -> list[float]:
    """The ratio of a figure in each round."""
    return [a[figure] / b[figure] for a, b in zip(rows[first], rows[other], strict=True)]


def added(rows: Results, first: str, other: str, figure: str = "p50_ms") -> list[float]:
    """The ratio of the latencies that two targets add to direct requests, in each round."""
    three = zip(rows[first], rows[other], rows[DIRECT], strict=True)
    return [(a[figure] - d[figure]) / max(b[figure] - d[figure], 1e-6) for a, b, d in three]


def goals(figures: Results) -> Iterator[Goal]:
    """All goals that this run has figures for."""
    for part in (_latency, _throughput, _streams, _semantic, _processes):
        yield from part(figures)


def _latency(figures: Results) -> Iterator[Goal]:
    small, large = figures["latency"]["1000"], figures["latency"]["100000"]
    yield Goal("c=1, 1 KB: added p50, to bare aiohttp's", 1.6, added(small, RULES, BARE))
    for name, bound in ((LITELLM, 1 / 25), (FILTER, 1 / 25)):
        if name in small:
            yield Goal(f"c=1, 1 KB: added p50, to {name}'s", bound, added(small, RULES, name))
    yield Goal("100 KB: p50, to bare aiohttp's", 6.0, ratios(large, RULES, BARE, "p50_ms"))
    million = figures["latency"]["1000000"]
    yield Goal("1 MB: added p50, to bare aiohttp's", 20.0, added(million, RULES, BARE))
    pairs = zip(million[RULES], large[RULES], strict=True)
    growth = [a["p50_ms"] / b["p50_ms"] / 10 for a, b in pairs]
    yield Goal("1 MB: p50 for each byte, to that of 100 KB (10 MB of text is refused)", 1.3, growth)


def _throughput(figures: Results) -> Iterator[Goal]:
    many, most = figures["load"]["16"], figures["load"]["64"]
    yield Goal("c=16: throughput, to bare aiohttp's", 0.45, ratios(many, RULES, BARE, "per_s"), least=True)
    if LITELLM in many:
        yield Goal("c=16: throughput, to LiteLLM's", 25, ratios(many, RULES, LITELLM, "per_s"), least=True)
    yield Goal("c=16: processor time of a request, to bare aiohttp's", 2.2, ratios(many, RULES, BARE, "cpu_ms"))
    yield Goal("c=64: throughput of 2 workers, to one", 1.7, ratios(most, TWO, RULES, "per_s"), least=True)


def _streams(figures: Results) -> Iterator[Goal]:
    calm, busy = figures["streams"], figures["busy streams"]
    yield Goal("stream: added time to the first chunk, to bare aiohttp's", 1.6, added(calm, RULES, BARE, "first_ms"))
    yield Goal("stream: delay of a chunk, to bare aiohttp's", 1.25, ratios(calm, RULES, BARE, "late_ms"))
    delivered = ratios(busy, RULES, DIRECT, "chunks_per_s")
    yield Goal("16 streams of 200 chunks/s: delivered, to direct", 0.98, delivered, least=True)


def _semantic(figures: Results) -> Iterator[Goal]:
    rows = figures["semantic"]
    beside = [row["rules_p99_beside_ms"] / row["rules_p99_ms"] for row in rows]
    yield Goal("p99 of requests that the rules block, during semantic work, to alone", 2, beside)
    for name, points in figures["conversation"].items():
        ratio = points["200"]["added_ms"] / points["10"]["added_ms"]
        yield Goal(f"{name}: turn 200 of a conversation, to turn 10", 1.5, [ratio])


def _processes(figures: Results) -> Iterator[Goal]:
    facts = figures["processes"]
    for name, bound in ((RULES, 90.0), (SEMANTIC, 220.0)):
        yield Goal(f"{name}: resident after the load", bound, [sum(facts[name]["resident_after_mb"])], unit=" MB")
    two, single = (facts[name]["proportional_after_mb"] for name in (TWO, RULES))
    yield Goal("second worker: memory of both and their supervisor, less one", 120.0, [two - single], unit=" MB")
    for name in (RULES, SEMANTIC):
        yield Goal(f"{name}: start to ready", 2.5, [facts[name]["ready_s"]], unit=" s")
