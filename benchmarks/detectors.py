"""Compares our detection with other detectors on the same labelled rows in one run: `make bench-detectors DATA=FILE`.

    python -m benchmarks.detectors FILE [--every N] [--ours ROWS] [--peers PYTHON] [--json OUT]

Ours is measured as `sidecar eval` measures it, with the shipped policies, model and threshold (`--ours` takes the rows
that it wrote with `--out` before). The others run
in a separate environment (`--peers` is its interpreter), with their default settings. A row is an attack if
it carries one of the four attack labels and benign if it is labelled so; rows with personal data alone are left out.
"Recall at" takes the threshold from the benign rows of the file itself, which flatters all detectors equally;
"as shipped" takes each detector's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from sidecar.evaluation import Row, read_rows

HERE = Path(__file__).parent
PEERS = ("stackone-defender", "securevector-guardian", "ai-injection-guard")
OURS = {"prompt-sidecar: rules + semantic": "rules,semantic", "prompt-sidecar: semantic alone": "semantic"}
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """A detector's result for one row; `elapsed` in milliseconds."""

    score: float
    blocked: bool
    elapsed: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one detector. `recall_at` maps a false-positive rate to the recall and its 95 % bootstrap interval."""

    auc: float
    recall_at: dict[str, tuple[float, float, float]]
    caught: float
    false_positives: float
    median_ms: float


def figures(rows: Sequence[Row], answers: Sequence[Answer], rng: np.random.Generator) -> Figures:
    """All figures; `rows` and `answers` have the same order."""
    scores = np.array([a.score for a in answers])
    attack = np.array([row.attack for row in rows])
    blocked = np.array([a.blocked for a in answers])
    return Figures(
        auc=area(scores[attack], scores[~attack]),
        recall_at={f"{rate:g}": _interval(scores[attack], scores[~attack], rate, rng) for rate in (0.01, 0.02, 0.05)},
        caught=float(blocked[attack].mean()),
        false_positives=float(blocked[~attack].mean()),
        median_ms=median(a.elapsed for a in answers),
    )


def area(attacks: np.ndarray, benign: np.ndarray) -> float:
    """The probability that an attack scores above a benign row, ties counting half (Mann-Whitney)."""
    order = np.sort(benign)
    below = np.searchsorted(order, attacks, "left") + np.searchsorted(order, attacks, "right")
    return float(below.mean() / 2 / len(order))


def recall(attacks: np.ndarray, benign: np.ndarray, rate: float) -> float:
    """Share of attacks above the score that at most this share of benign rows exceeds."""
    return float((attacks > np.sort(benign)[::-1][min(len(benign) - 1, int(rate * len(benign)))]).mean())


def _interval(
    attacks: np.ndarray, benign: np.ndarray, rate: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    drawn = [recall(rng.choice(attacks, len(attacks)), rng.choice(benign, len(benign)), rate) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return recall(attacks, benign, rate), float(low), float(high)


def ours(path: Path, rows: Sequence[Row], layers: str) -> list[Answer]:
    """Our results, from `sidecar eval` on the file in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.jsonl"
        command = [sys.executable, "-m", "sidecar", "eval", str(path), "--layers", layers, "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return written(out, rows)


def written(path: Path, rows: Sequence[Row]) -> list[Answer]:
    """The results that `sidecar eval --out` wrote, in the order of the rows."""
    answers = {value["id"]: value for value in map(json.loads, path.read_text("utf-8").splitlines())}
    lines = (answers[row.id] for row in rows)
    return [Answer(value["risk_score"], value["action"] == "block", value["latency_ms"]) for value in lines]


def theirs(python: Path, name: str, rows: Sequence[Row]) -> Iterator[Answer]:
    """Results of another detector's package, one text after another."""
    texts = "".join(json.dumps(row.text) + "\n" for row in rows)
    command = [str(python), str(HERE / "peers" / "score.py"), name]
    done = subprocess.run(command, input=texts, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
    for line in done.stdout.splitlines():
        yield Answer(*json.loads(line))


def show(measured: dict[str, Figures], attacks: int, benign: int) -> None:
    """The figures as a Markdown table."""
    table = Table("detector", "AUC", "recall at 1 %", "at 2 %", "at 5 %", "as shipped", "false positives", "median ms")
    table.title = f"{attacks} attacks, {benign} benign"
    for name, figure in measured.items():
        at = [f"{mid:.1%} ({low:.1%} to {high:.1%})" for mid, low, high in figure.recall_at.values()]
        shipped = (f"{figure.caught:.1%}", f"{figure.false_positives:.2%}", f"{figure.median_ms:.1f}")
        table.add_row(name, f"{figure.auc:.3f}", *at, *shipped)
    Console(width=170).print(table)


def main() -> None:
    """Measure our detector and, with `--peers`, the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--peers", type=Path, help="the interpreter of the peers' environment")
    parser.add_argument("--ours", type=Path, help="rows of `sidecar eval --out`, instead of evaluating now")
    parser.add_argument("--every", type=int, default=1, help="use every n-th row only")
    parser.add_argument("--json", type=Path, dest="out", help="also write the figures to this file")
    arguments = parser.parse_args()
    rows = [row for row in read_rows(arguments.path) if row.attack or row.benign][:: arguments.every]
    rng, measured = np.random.default_rng(7), {}
    if arguments.ours:
        measured["prompt-sidecar"] = figures(rows, written(arguments.ours, rows), rng)
    for name, layers in () if arguments.ours else OURS.items():
        measured[name] = figures(rows, ours(arguments.path, rows, layers), rng)
    for name in PEERS if arguments.peers else ():
        measured[name] = figures(rows, list(theirs(arguments.peers, name, rows)), rng)
    attacks = sum(row.attack for row in rows)
    show(measured, attacks, len(rows) - attacks)
    if arguments.out:
        arguments.out.write_text(
            json.dumps({name: asdict(figure) for name, figure in measured.items()}, indent=1), "utf-8"
        )


if __name__ == "__main__":
    main()
