"""Measures a model folder alone on labelled rows: `python -m training.evaluate FILE [--model FOLDER] [--json OUT]`.

The thresholds of the table come from the file's own benign rows, as other detectors report it; the columns
"at 0.6" use the shipped calibration and threshold, which never saw the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from sidecar.detectors.semantic.artifact import SHIPPED, ModelArtifact
from training.rows import CHANNELS, Row, read
from training.scores import Floats, Score, auc, ece, recall_at, score

THRESHOLD = 0.6
NAMES = {number: name for name, number in CHANNELS.items()}


def measure(path: Path, folder: Path, processes: int = 2, every: int = 1) -> dict[str, Any]:
    """All figures as plain data, from every n-th row."""
    rows = [row for row in read(path) if row.attack or not row.pii]
    return figures(*judged(rows[::every], folder, processes))


def judged(rows: Sequence[Row], folder: Path, processes: int = 2) -> tuple[list[Score], Floats]:
    """A model folder's scores of rows, and the probabilities from its calibration."""
    scores, manifest = score(rows, folder, processes), ModelArtifact.read(folder).manifest
    return scores, np.array([manifest.calibration_for(s.row.channel).probability(s.logit) for s in scores])


def figures(scores: Sequence[Score], chances: Floats) -> dict[str, Any]:
    """Overall, and by source, language, channel and length."""
    attack = np.array([s.row.attack for s in scores])
    a, b = chances[attack], chances[~attack]
    overall = {"auc": auc(a, b), "ece": ece(chances, attack), "attacks": len(a), "benign": len(b)}
    rates = {f"recall_at_{rate:g}": recall_at(a, b, rate) for rate in (0.005, 0.01, 0.02, 0.05)}
    at = {"recall": float((a >= THRESHOLD).mean()), "false_positives": float((b >= THRESHOLD).mean())}
    keys: dict[str, Callable[[Score], str]] = {
        "source": lambda s: s.row.source,
        "language": lambda s: s.row.lang or "?",
        "channel": lambda s: NAMES[s.row.channel],
        "windows": lambda s: "1" if s.windows < 2 else "2-4" if s.windows < 5 else "5-16" if s.windows < 17 else "17+",
    }
    groups = {name: _groups(scores, chances, key) for name, key in keys.items()}
    return {"overall": {**overall, **rates, **at}, **groups, "curves": curves(chances, attack)}


def curves(chances: Floats, attack: Any) -> dict[str, Any]:
    """Recall over the false-positive rate, and the observed rate for each predicted probability."""
    points = [float(rate) for rate in np.geomspace(0.001, 1, 60)]
    bins = np.minimum((chances * 10).astype(int), 9)
    return {
        "recall": [[rate, recall_at(chances[attack], chances[~attack], rate)] for rate in points],
        "reliability": [
            [float(chances[bins == b].mean()), float(attack[bins == b].mean()), int((bins == b).sum())]
            for b in range(10)
            if (bins == b).any()
        ],
    }


def _groups(scores: Sequence[Score], chances: Floats, key: Callable[[Score], str]) -> dict[str, Any]:
    groups: dict[str, dict[str, list[float]]] = {}
    for item, chance in zip(scores, chances, strict=True):
        groups.setdefault(key(item), {"attacks": [], "benign": []})["attacks" if item.row.attack else "benign"].append(
            chance
        )
    return {
        name: {kind: {"of": len(v), "over": float(np.mean(np.array(v) >= THRESHOLD))} for kind, v in kinds.items() if v}
        for name, kinds in sorted(groups.items())
    }


def show(measured: dict[str, Any]) -> None:
    """Tables on the terminal."""
    console = Console()
    console.print({name: round(value, 4) for name, value in measured["overall"].items()})
    for kind in ("source", "language", "channel", "windows"):
        groups = measured[kind]
        table = Table("", "attacks", "caught", "benign", "false alarms", title=f"by {kind}, at {THRESHOLD}")
        for name, group in groups.items():
            table.add_row(name, *(cell for part in ("attacks", "benign") for cell in _cells(group.get(part))))
        console.print(table)


def _cells(part: dict[str, float] | None) -> tuple[str, str]:
    return ("", "") if part is None else (str(part["of"]), f"{part['over']:.1%}")


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--model", type=click.Path(path_type=Path, exists=True), default=SHIPPED["onnx"])
@click.option("--json", "out", type=click.Path(path_type=Path), help="also write the figures to this file")
@click.option("--processes", default=2, show_default=True)
@click.option("--every", default=1, help="measure on every so manyth row only")
def main(path: Path, model: Path, out: Path | None, processes: int, every: int) -> None:
    """Measure a model folder."""
    measured = measure(path, model, processes, every)
    if out:
        out.write_bytes(orjson.dumps(measured, option=orjson.OPT_INDENT_2))
    show(measured)


if __name__ == "__main__":
    main()
