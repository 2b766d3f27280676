"""Measures the product on pictures: reader, rules, model and engine with the shipped settings, pictures being on.

The pictures are those of `benchmarks/ocr.py draw`. Prints for each file how many attacks are blocked and how many
harmless pictures are, and how many of each would be by the general threshold:

    python benchmarks/pictures.py build/pictures-tuning.jsonl build/pictures-final.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import resource
from collections import Counter
from pathlib import Path

from sidecar.attachments.reader import AttachmentReader
from sidecar.config import Settings
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.runtime.builder import open_scanner
from sidecar.scan.engine import Engine
from sidecar.types import Action, ScanRequest


async def judge(data: bytes, reader: AttachmentReader, engine: Engine, slots: asyncio.Semaphore) -> set[str]:
    """What became of a picture: `blocked`, also `at the general threshold`; `unread`, also in part."""
    async with slots:
        extraction = await reader.read(Extraction(unscannable=(Unscannable("media", "picture", data=data),)))
        results = {"unread"} if extraction.unscannable else set()
        if extraction.segments:
            verdict = await engine.scan(ScanRequest(extraction.segments))
            results |= {"blocked"} if verdict.action is Action.BLOCK else set()
            results |= {"at the general threshold"} if verdict.risk_score >= engine.config.threshold else set()
    return results


async def measure(files: list[Path]) -> None:
    """Read and scan the pictures of each file, as many at once as there are processes."""
    settings = Settings.model_validate({"inline": {"pictures": {"enabled": True, "deadline": "60s"}}})
    reader, slots = AttachmentReader(settings.inline), asyncio.Semaphore(settings.inline.pictures.processes)
    async with open_scanner(settings, selftests=False) as scanner:
        for file in files:
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            before = _processor_time()
            pictures = [base64.b64decode(row["picture"]) for row in rows]
            results = await asyncio.gather(*(judge(data, reader, scanner.engine, slots) for data in pictures))
            _show(file.stem, [row["label"] for row in rows], results, (_processor_time() - before) / len(rows))


def _show(name: str, labels: list[str], results: list[set[str]], seconds: float) -> None:
    print(f"{name}: {seconds:.2f} s of processor time per picture, process and scan included")
    for label in ("attack", "benign"):
        outcomes = [result for kind, result in zip(labels, results, strict=True) if kind == label]
        counts = Counter(value for result in outcomes for value in result)
        shares = ", ".join(
            f"{value} {counts[value]} ({counts[value] / len(outcomes):.2%})"
            for value in ("blocked", "at the general threshold", "unread")
        )
        print(f"  {label}: {len(outcomes)} pictures, {shares}")


def _processor_time() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    asyncio.run(measure(parser.parse_args().files))
