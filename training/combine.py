"""Fits the weight of rule hints relative to the model: `python -m training.combine` prints a line per weight.

The combiner (`sidecar.scan.fusion`) adds the evidence of hints to the model's, times one weight. The best weight
maximises the likelihood of the holdout rows; how well each separates attacks from benign rows is printed beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import numpy as np
from rich.progress import track

from sidecar.config import Settings
from sidecar.runtime.builder import open_scanner
from sidecar.scan import fusion
from sidecar.types import SOURCE_OF, Channel, LayerReport, ScanRequest, Segment
from training import holdout
from training import rows as data
from training.rows import CHANNELS, Row
from training.scores import auc, recall_at

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_CHANNELS = {number: Channel(name) for name, number in CHANNELS.items()}
Reports = Sequence[tuple[LayerReport, LayerReport]]


async def reports(rows: Sequence[Row]) -> Reports:
    """The separate reports of rules and model for each row."""
    pairs = []
    async with open_scanner(Settings(), selftests=False) as built:
        rules, model = (stage.layer for stage in built.engine.stages[:2])
        for row in track(rows, "scanning", transient=True):
            request = ScanRequest((Segment(row.text, SOURCE_OF[_CHANNELS[row.channel]]),))
            pairs.append((await rules.scan(request, ()), await model.scan(request, ())))
    return pairs


def chances(pairs: Reports, weight: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The probabilities of the combiner with this weight."""
    return np.array([fusion.fuse_hints(model, [rules], weight).score or 0.0 for rules, model in pairs])


def loss(
    chance: np.ndarray[tuple[int], np.dtype[np.float64]], attack: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> float:
    """Mean negative log-likelihood of the labels."""
    right = np.where(attack, chance, 1 - chance)
    return float(-np.log(np.clip(right, 1e-6, 1)).mean())


@click.command()
@click.option("--every", default=1, help="only every so manyth row")
def main(every: int) -> None:
    """Print a line for each weight."""
    rows = holdout.holdout_rows(data.corpus())[::every]
    pairs, attack = asyncio.run(reports(rows)), np.array([row.attack for row in rows])
    for weight in WEIGHTS:
        chance = chances(pairs, weight)
        a, b = chance[attack], chance[~attack]
        at = "  ".join(f"{rate:.1%}: {recall_at(a, b, rate):.3f}" for rate in (0.005, 0.01, 0.02))
        click.echo(f"weight {weight:4.2f}: loss {loss(chance, attack):.4f}, AUC {auc(a, b):.4f}, caught at {at}")


if __name__ == "__main__":
    main()
