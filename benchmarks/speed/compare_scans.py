"""Processor time per scan of two trees of this program, rules alone and whole, in alternating batches of one run.

    python -m benchmarks.speed.compare_scans OLD DOCUMENTS [--rounds 100]

OLD is the folder of another checkout; DOCUMENTS is a file of JSON lines with a `text` each, perhaps gzipped: the real
text. Plain text is made of common words. Both processes scan the same texts, none of them twice, and every second round
begins with the other tree. Printed are the median and the mean of the ratios, and the upper bound of the mean (95 %).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

WORKER = Path(__file__).with_name("scan_worker.py")
CASES = (
    ("rules", "plain", 1_000, 60),
    ("whole", "plain", 1_000, 20),
    ("rules", "plain", 10_000, 10),
    ("whole", "plain", 10_000, 4),
    ("rules", "real", 1_000, 30),
    ("whole", "real", 1_000, 8),
)
"""The layers, the kind of text, its length in characters, and the scans of a batch."""
WARM, QUANTILE = 3, 1.645


class Tree:
    """A process that scans with the program of one folder."""

    def __init__(self, folder: Path, documents: Path) -> None:
        command = [sys.executable, str(WORKER), str(documents.resolve())]
        environ = {**os.environ, "PYTHONPATH": str(folder.resolve())}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=folder, env=environ, stdin=pipe, stdout=pipe, text=True)
        self._cases, self._answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)

    def seconds(self, *case: object) -> float:
        """Processor time of one batch."""
        self._cases.write(json.dumps(case) + "\n")
        self._cases.flush()
        return float(self._answers.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("old", type=Path, help="folder of the other checkout")
    parser.add_argument("documents", type=Path, help="JSON lines with the real texts")
    parser.add_argument("--rounds", type=int, default=100)
    chosen = parser.parse_args()
    old, new = Tree(chosen.old, chosen.documents), Tree(Path.cwd(), chosen.documents)
    for *case, scans in CASES:
        for tree in (old, new):
            tree.seconds(*case, WARM)
        logs, batches = list[float](), list[float]()
        for number in range(chosen.rounds):
            taken = {tree: tree.seconds(*case, scans) for tree in ((new, old) if number % 2 else (old, new))}
            logs.append(math.log(taken[new] / taken[old]))
            batches.append(taken[new])
        mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
        figures = [math.exp(figure) for figure in (statistics.median(logs), mean, mean + QUANTILE * error)]
        print(
            f"{case[0]:5} {case[1]:5} {case[2]:6}  new / old: median {figures[0]:.3f}, mean {figures[1]:.3f}, "
            f"upper bound {figures[2]:.3f}  ({1e3 * statistics.median(batches) / scans:.2f} ms a scan)",
            flush=True,
        )
    for tree in (old, new):
        tree.close()
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
