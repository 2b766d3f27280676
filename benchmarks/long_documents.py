"""Cost of long requests, in passes of the second-stage model over one window (126 tokens), all in one run.

Reads the documents of a labelled file as `sidecar eval` does, scans each with rules and the semantic layer in one
thread and prints the cost by size class and of the most expensive one. Texts are also joined to 1 MB and
10 MB, for the semantic layer and for the rules alone.

    python -m benchmarks.long_documents FILE.jsonl.gz [--each 12]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from pathlib import Path

from sidecar.config import Settings
from sidecar.detectors.semantic.artifact import SHIPPED, ModelArtifact
from sidecar.detectors.semantic.cascade import CascadeScorer
from sidecar.evaluation.rows import Row, read_rows
from sidecar.runtime.builder import open_scanner
from sidecar.scan.aggregation import Caller
from sidecar.scan.engine import Engine
from sidecar.types import ScanRequest, Segment, Source

THOROUGH = Caller(thorough=True)
PASSES = 40


def one_pass(words: str) -> float:
    """Median seconds of one window through the second stage."""
    scorer = CascadeScorer.open(ModelArtifact.read(SHIPPED["onnx"]), 1)
    window = next(iter(scorer.windows(words)))
    taken = []
    for _ in range(PASSES):
        begun = time.perf_counter()
        cost = scorer.second_stage(window, 1).cost
        taken.append((time.perf_counter() - begun) / cost)
    return statistics.median(taken)


async def seconds(engine: Engine, text: str) -> float:
    """Seconds of one scan; a failure of a layer is printed."""
    begun = time.perf_counter()
    verdict = await engine.scan(ScanRequest((Segment(text, Source.UNTRUSTED),)), THOROUGH)
    if verdict.failure is not None:
        print(f"  a scan failed: {verdict.failure}")
    return time.perf_counter() - begun


def chosen(rows: list[Row], count: int) -> dict[str, list[Row]]:
    """`each` documents of each size class, evenly over the file."""
    classes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.form == "document" and not row.attack:
            classes[row.size_class].append(row)
    return {name: members[:: max(1, len(members) // count)][:count] for name, members in sorted(classes.items())}


def joined(rows: list[Row], size: int) -> str:
    """Concatenated documents up to this many characters, repeated from the start if needed."""
    text = "\n\n".join(row.text for row in rows if row.form == "document")
    return (text * (size // len(text) + 1))[:size]


async def measure(rows: list[Row], count: int) -> None:
    """Print everything."""
    settings = Settings()
    unit = one_pass(rows[0].text or "plain words " * 100)
    print(f"one pass: {unit * 1000:.1f} ms")
    async with open_scanner(settings, selftests=False) as built:
        for name, members in chosen(rows, count).items():
            prices = [(await seconds(built.engine, row.text) / unit, row.kind, row.bytes) for row in members]
            per = [price / size * 100_000 for price, _, size in prices]
            print(f"{name}: median {statistics.median(per):.0f} passes for 100 kB, dearest {max(prices)}")
    async with open_scanner(settings, selftests=False) as built:  # with empty caches
        print(f"1 MB: {await seconds(built.engine, joined(rows, 1_000_000)) / unit:.0f} passes")
    await rules_alone(rows, unit)


async def rules_alone(rows: list[Row], unit: float) -> None:
    """The rules on mixed text compared with plain ASCII of the same size, at 1 MB and 10 MB."""
    settings = Settings.model_validate({"layers": {"semantic": {"enabled": False}}})
    async with open_scanner(settings, selftests=False) as built:
        plain = await seconds(built.engine, ("It was a quiet day at the harbour. " * 30_000)[:1_000_000])
        mixed = [await seconds(built.engine, joined(rows, size)) for size in (1_000_000, 10_000_000)]
    print(f"rules: 1 MB {mixed[0] / unit:.0f} passes, {mixed[0] / plain:.1f} x plain ASCII")
    print(f"rules: 10 MB {mixed[1] / mixed[0] / 10:.2f} x the time per byte of 1 MB")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=int, default=12)
    arguments = parser.parse_args()
    asyncio.run(measure(read_rows(arguments.file), arguments.each))


if __name__ == "__main__":
    main()
