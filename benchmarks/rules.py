"""Speed of the rules layer: plain text, one letter a million times, and text dense with trigger words.

Hostile text is made of the words of the shipped patterns in random order, new for every reading that is called
cold. The same patterns are also searched one by one. Microseconds, median; every plain text must have no finding.

    python -m benchmarks.rules [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

import re2

from sidecar import policy
from sidecar.layers.rules import RulesLayer
from sidecar.types import ScanRequest, Segment

SIZES = (1_000, 10_000, 100_000, 1_000_000)
HOSTILE = (1_000, 10_000, 100_000)
TEXT = (
    "The committee met on Tuesday to discuss the new library. Several people asked about opening hours, and the "
    "architect explained how the light falls through the northern windows in winter. After lunch we walked along the "
    "river, bought bread and cheese, and talked about the holiday in Portugal that we have planned since March. "
)


def median(work: Callable[[], object], times: int) -> float:
    """Microseconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return round(statistics.median(taken) * 1e6)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    shipped = policy.load()
    layer = RulesLayer(shipped)
    words = sorted({w for rule in shipped.rules for p in rule.patterns for w in re2.findall("[a-zäöüéèñç]{3,}", p)})
    rng = random.Random(1)

    def scan(text: str) -> object:
        return layer._scan(ScanRequest((Segment(text),)))  # noqa: SLF001 - without the hop to a thread

    def hostile(size: int) -> str:
        return " ".join(rng.choice(words) for _ in range(size // 4))[:size]

    figures: dict[str, float] = {"patterns": sum(len(rule.patterns) for rule in shipped.rules)}
    scan(hostile(10_000))
    for size in SIZES:
        text = (TEXT * (size // len(TEXT) + 1))[:size]
        assert scan(text) == ()  # noqa: S101 - a benchmark that checks itself
        figures[f"plain {size}"] = median(lambda text=text: scan(text), max(5, 100_000 // size))  # type: ignore[misc]
    figures["a * 1000000"] = median(lambda: scan("a" * 1_000_000), 5)
    for size in HOSTILE:
        figures[f"hostile cold {size}"] = median(lambda size=size: scan(hostile(size)), 7)  # type: ignore[misc]
        same = hostile(size)
        figures[f"hostile warm {size}"] = median(lambda same=same: scan(same), 7)  # type: ignore[misc]
    alone = [policy.compiled(p) for rule in shipped.rules for p in rule.patterns]
    text = (TEXT * 400)[:10_000]
    figures["one by one 10000"] = median(lambda: [pattern.search(text) for pattern in alone], 3)
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:12,.0f}")


if __name__ == "__main__":
    main()
