"""Speed and memory of the rules layer: plain text, real prompts, and text dense with trigger words.

Plain text repeats three harmless sentences. Real prompts are harmless rows of our own corpus, concatenated; they
contain many ordinary words that attacks use, too. Hostile text consists of the words of the shipped patterns in random
order, generated again for each cold scan. Thinned hostile text alternates these with ordinary words and contains only
pieces that no rule matches with certainty, so that no scan ends early. Hostile text of literals consists of the
patterns' required literals, as an attacker who has read the code would write it. The same patterns are also searched
one by one, with RE2 and, where it supports their syntax, with Python's `re`. The self-tests of all rules run before the
measurement, as at every start. Figures are medians in microseconds of processor time, which other load affects less
than wall time; a finding in plain text is an error.

    python -m benchmarks.rules [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import re2

from sidecar import policy
from sidecar.detectors.rules import selftest
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.detectors.rules.literals import required_literals
from sidecar.normalization import clear_cache
from sidecar.types import Finding, Segment

SIZES = (1_000, 10_000, 100_000, 1_000_000)
HOSTILE = (1_000, 10_000, 100_000)
RE = (1_000, 10_000)
CORPUS = Path(__file__).parent.parent / "training" / "corpus"
PIECE = 250
BLOCKING = 0.6
"""From this score on the shipped configuration blocks."""
TIMES, FEW = 15, 3
TEXT = (
    "The committee met on Tuesday to discuss the new library. Several people asked about opening hours, and the "
    "architect explained how the light falls through the northern windows in winter. After lunch we walked along the "
    "river, bought bread and cheese, and talked about the holiday in Portugal that we have planned since March. "
)


def median(work: Callable[[str], object], texts: Iterable[str]) -> float:
    """Microseconds for each text."""
    taken = []
    for text in texts:
        begun = time.process_time()
        work(text)
        taken.append(time.process_time() - begun)
    return round(statistics.median(taken) * 1e6)


def resident() -> float:
    """Resident megabytes of this process; 0 where /proc is not available."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def for_re(pattern: str) -> re.Pattern[str] | None:
    """The same pattern for Python's `re`; None if `re` does not support its syntax."""
    text = re.sub(r"\\p\{?L\}?", r"[^\\W\\d_]", re.sub(r"\[([^\[\]]*)\\pL", r"[\1\\w", pattern))
    text = text.replace("[:punct:]", r"!-/:-@\[-`{-~").replace("[:digit:]", r"\d").replace(r"\z", r"\Z")
    text = re.sub(r"\\x\{([0-9a-fA-F]+)\}", lambda m: re.escape(chr(int(m.group(1), 16))), text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(text, re.IGNORECASE)
        except re.error:
            return None


def plain(size: int) -> str:
    """Ordinary text."""
    return (TEXT * (size // len(TEXT) + 1))[:size]


def real(size: int) -> list[str]:
    """Harmless prompts of many kinds and languages, concatenated and cut to `size`."""
    files = (path.read_bytes() for path in sorted(CORPUS.glob("*.jsonl")))
    rows = (json.loads(line) for file in files for line in file.splitlines())
    prompts = [row["text"] for row in rows if row["benign"] and not row.get("hard_negative")]
    random.Random(1).shuffle(prompts)
    text = " ".join(prompts)
    return [text[at : at + size] for at in range(0, max(1, min(TIMES * size, len(text) - size)), size)]


class Hostile:
    """Text of trigger words."""

    def __init__(self, rules: Sequence[policy.Rule]) -> None:
        self._words = sorted({w for rule in rules for p in rule.patterns for w in re2.findall("[a-zäöüéèñç]{3,}", p)})
        every = {
            literal
            for rule in rules
            for p in rule.patterns
            for clause in required_literals(p).clauses
            for literal in clause
        }
        self._literals = sorted(n.decode().strip() if isinstance(n, bytes) else n for n in every)
        self._rng = random.Random(1)

    def text(self, size: int) -> str:
        """Words of all languages in random order."""
        return " ".join(self._rng.choice(self._words) for _ in range(size // 4))[:size]

    def literals(self, size: int) -> str:
        """Required literals of the patterns in random order."""
        return " ".join(self._rng.choice(self._literals) for _ in range(size // 2))[:size]

    def fresh(self, size: int) -> Iterator[str]:
        """Texts that no cache contains."""
        return iter([self.text(size) for _ in range(TIMES)])

    def thinned(self, size: int, scan: Callable[[str], list[Finding]]) -> str:
        """Trigger words alternating with ordinary ones, in pieces that no rule matches with certainty."""
        ordinary, pieces = TEXT.split(), list[str]()
        while len(pieces) * PIECE < size:
            words = (f"{self._rng.choice(self._words)} {self._rng.choice(ordinary)}" for _ in range(PIECE // 8))
            piece = " ".join(words)[:PIECE]
            if max((f.score for f in scan(piece)), default=0.0) < BLOCKING:
                pieces.append(piece)
        return " ".join(pieces)[:size]


def measure() -> dict[str, float]:
    """All figures by name."""
    before = resident()
    shipped = policy.load()
    layer = RulesLayer(shipped)
    assert asyncio.run(selftest.run_selftests(shipped, [layer])) == []  # noqa: S101 - a benchmark that checks itself

    def scan(text: str) -> list[Finding]:
        clear_cache()
        return list(layer._scan_segment(Segment(text), None, enough=None).findings)  # noqa: SLF001 - without the hop to a thread

    patterns = [pattern for rule in shipped.rules for pattern in rule.patterns]
    figures: dict[str, float] = {"patterns": len(patterns), "rules and automata, MB": round(resident() - before)}
    hostile = Hostile(shipped.rules)
    scan(hostile.text(10_000))
    for size in SIZES:
        assert scan(plain(size)) == []  # noqa: S101 - a benchmark that checks itself
        figures[f"plain {size}"] = median(scan, [plain(size)] * max(5, 100_000 // size))
    for size in HOSTILE:
        figures[f"real prompts, new {size}"] = median(scan, real(size))
        figures[f"real prompts, known {size}"] = median(scan, real(size))
    figures["a * 1000000"] = median(scan, ["a" * 1_000_000] * 5)
    for size in HOSTILE:
        figures[f"hostile cold {size}"] = median(scan, hostile.fresh(size))
        figures[f"hostile warm {size}"] = median(scan, [hostile.text(size)] * TIMES)
        figures[f"hostile, literals, cold {size}"] = median(scan, [hostile.literals(size) for _ in range(FEW)])
        figures[f"hostile, literals, warm {size}"] = median(scan, [hostile.literals(size)] * FEW)
    for size in HOSTILE:
        texts = [hostile.thinned(size, scan) for _ in range(FEW)]
        figures[f"hostile, thinned, cold {size}"] = median(scan, texts)
        figures[f"hostile, thinned, warm {size}"] = median(scan, [texts[0]] * FEW)
    figures["after hostile text, MB"] = round(resident() - before)
    return {**figures, **one_by_one(patterns)}


def one_by_one(patterns: list[str]) -> dict[str, float]:
    """Search for the same patterns one by one."""
    figures: dict[str, float] = {}
    alone = [policy.compiled(pattern) for pattern in patterns]
    translated = [compiled for pattern in patterns if (compiled := for_re(pattern))]
    figures["patterns that re can have"] = len(translated)
    for size in RE:
        text = plain(size)
        figures[f"RE2 one by one {size}"] = median(lambda text: [p.search(text) for p in alone], [text] * 3)
        figures[f"re one by one {size}"] = median(lambda text: [p.search(text) for p in translated], [text] * 3)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    figures = measure()
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:30} {value:12,.0f}")


if __name__ == "__main__":
    main()
