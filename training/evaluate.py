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
from rich.progress import track
from rich.table import Table

from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.scorer import Scorer
from sidecar.layers.windows import Window, batches
from training.rows import Row, read
from training.scores import Floats, Score, auc, ece, recall_at, score

THRESHOLD = 0.6


def measure(path: Path, folder: Path, threads: int = 1, every: int = 1) -> dict[str, Any]:
    """All figures as plain data, from every so manyth row."""
    rows = [row for row in read(path) if row.attack or not row.pii]
    return figures(*judged(rows[::every], folder, threads))


def judged(rows: Sequence[Row], folder: Path, threads: int) -> tuple[list[Score], Floats]:
    """What a model folder says of rows: scores, and the probabilities that it makes of them."""
    artefact = Artefact.read(folder)
    scorer = Scorer.open(artefact, threads)
    scores = score(rows, lambda text, _: list(scorer.windows(text)), lambda found: logits(found, scorer))
    chance = artefact.manifest.calibration.probability
    return scores, np.array([chance(s.logit, s.windows) for s in scores])


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
        "channel": lambda s: "indirect" if s.row.indirect else "direct",
        "windows": lambda s: "1" if s.windows < 2 else "2-4" if s.windows < 5 else "5-16" if s.windows < 17 else "17+",
    }
    groups = {name: _groups(scores, chances, key) for name, key in keys.items()}
    return {"overall": {**overall, **rates, **at}, **groups, "curves": curves(chances, attack)}


def curves(chances: Floats, attack: Any) -> dict[str, Any]:
    """Recall over false alarms, and how often a stated probability comes true."""
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
    found: dict[str, dict[str, list[float]]] = {}
    for one, chance in zip(scores, chances, strict=True):
        found.setdefault(key(one), {"attacks": [], "benign": []})["attacks" if one.row.attack else "benign"].append(
            chance
        )
    return {
        name: {kind: {"of": len(v), "over": float(np.mean(np.array(v) >= THRESHOLD))} for kind, v in kinds.items() if v}
        for name, kinds in sorted(found.items())
    }


def logits(found: Sequence[tuple[Window, bool]], scorer: Scorer) -> list[float]:
    """The attack logit of each window, from a finished model."""
    out = [0.0] * len(found)
    for batch in track(list(batches([w for w, _ in found], 4096)), "scoring", transient=True):
        for index, said in zip(batch, scorer([found[i][0] for i in batch], [found[i][1] for i in batch]), strict=True):
            out[index] = float(said.logits[scorer.head.attack])
    return out


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
@click.option("--threads", default=1)
@click.option("--every", default=1, help="measure on every so manyth row only")
def main(path: Path, model: Path, out: Path | None, threads: int, every: int) -> None:
    """Measure a model folder."""
    measured = measure(path, model, threads, every)
    if out:
        out.write_bytes(orjson.dumps(measured, option=orjson.OPT_INDENT_2))
    show(measured)


if __name__ == "__main__":
    main()
