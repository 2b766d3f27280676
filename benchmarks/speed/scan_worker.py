"""Scans texts with the program that is first in `PYTHONPATH`; `benchmarks.speed.compare_scans` starts it.

It reads lines `[layers, kind, length, scans]` and answers each with the processor time of these scans in seconds. It
imports nothing of the benchmarks, since the other tree may not have it.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import sys
import time
from itertools import count
from pathlib import Path
from random import Random

from sidecar.config import Settings
from sidecar.runtime.builder import open_scanner
from sidecar.types import ScanRequest, Segment

_WORDS = (
    "the committee met on Tuesday to discuss new bicycle lanes along river Anna presented budget and council asked for "
    "a second estimate before June please summarise main points newsletter keep it short garden school bread window "
    "letter seven quiet lamp morning paper green"
)
WORDS = _WORDS.split()
SENTENCE, DOCUMENT, STRIDE = 11, 6_000, 7_919
"""Words of a sentence, characters of a document that are used, and the characters between two real texts."""


def documents(path: Path) -> str:
    """The first characters of all documents."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        return " ".join(json.loads(line)["text"][:DOCUMENT] for line in lines)


def plain(length: int, seed: int) -> str:
    """Random sentences."""
    chance, text = Random(seed), ""
    while len(text) < length:
        text += " ".join(chance.choices(WORDS, k=SENTENCE)).capitalize() + ". "
    return text[:length]


async def main() -> None:
    """Answer until the input ends."""
    real, seeds = documents(Path(sys.argv[1])), count()
    rules_alone = Settings(layers={"semantic": {"enabled": False}})
    async with open_scanner(Settings(), selftests=False) as whole, open_scanner(rules_alone, selftests=False) as rules:
        for line in sys.stdin:
            layers, kind, length, scans = json.loads(line)
            engine, numbers = (rules if layers == "rules" else whole).engine, [next(seeds) for _ in range(scans)]
            starts = [number * STRIDE % (len(real) - length) for number in numbers]
            texts = (
                [plain(length, number) for number in numbers]
                if kind == "plain"
                else [real[at : at + length] for at in starts]
            )
            gc.collect()
            gc.freeze()  # as after the start of the server
            before = time.process_time()
            for text in texts:
                await engine.scan(ScanRequest((Segment(text),)))
            print(time.process_time() - before, flush=True)


asyncio.run(main())
