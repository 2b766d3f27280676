"""The mean of the weights of several trainings: `python -m training.soup A.pt B.pt --out FOLDER`.

Networks that began at the same weights lie in one valley, and their mean reads texts of unseen sources better than each
(Wortsman et al., "Model soups", 2022; here on `dev`: docs/detection.md). Its logits are smaller, so the curve of the
calibration is made as much steeper; the point where it reaches the threshold comes from the families held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch

from sidecar.layers.artefact import SHIPPED, Artefact, Calibration
from sidecar.layers.embedding import OnnxEncoder
from training import calibrate, evaluate, held_back
from training import rows as data
from training.frozen import write
from training.network import Network
from training.scores import Score, score
from training.train import parity, ship

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Parent:
    """A trained network and the slope that was fitted for it."""

    weights: Weights
    slope: float


def mean(parts: Sequence[Weights]) -> dict[str, torch.Tensor]:
    """Each weight as the mean of its values; what is no fraction is as in the first."""
    first = parts[0]
    return {
        name: torch.stack([part[name].float() for part in parts]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in first.items()
    }


def curve(scores: Sequence[Score], slope: float, margin: float = 0.0) -> Calibration:
    """A curve of this slope that reaches the threshold so many logits above where the one fitted on these rows does."""
    fitted = calibrate.fit(scores)
    wanted = float(np.log(calibrate.THRESHOLD / (1 - calibrate.THRESHOLD)))
    point = (wanted - fitted.offset) / fitted.slope + margin
    return Calibration(slope=slope, offset=wanted - slope * point, per_log_windows=-calibrate.LENGTH * slope)


def scored(weights: Weights, folder: Path, rows: Sequence[data.Row], key: str) -> list[Score]:
    """Export the weights to the folder and score the rows with what was exported."""
    network = Network()
    network.load_state_dict(dict(weights))
    ship(network.eval(), folder, key)
    artefact = Artefact.read(folder)
    encoder = OnnxEncoder(artefact, 2)
    return score(rows, encoder.tokenizer, lambda found: evaluate.logits(found, encoder, artefact))


def spread(scores: Sequence[Score]) -> float:
    """Standard deviation of the logits."""
    return float(np.std([one.logit for one in scores]))


def read(path: Path) -> Weights:
    """The weights of a checkpoint of `training.train`, or bare ones."""
    state = torch.load(path, weights_only=True)
    found: Weights = state.get("network", state)
    return found


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--slope", "slopes", multiple=True, type=float, required=True, help="once for each network: model.json")
@click.option("--seen", type=click.Path(path_type=Path), help="a corpus that a network knows: not to calibrate on")
@click.option("--margin", default=0.0, show_default=True, help="logits by which the threshold is stricter")
@click.option("--out", type=click.Path(path_type=Path), default=SHIPPED["onnx"], show_default=True)
@click.option("--name", required=True, help="the version of the new model")
def main(
    paths: Sequence[Path], slopes: Sequence[float], seen: Path | None, margin: float, out: Path, name: str
) -> None:
    """Average networks, export, calibrate."""
    known = {row.text for row in data.corpus(seen)} if seen else set()
    rows = [row for row in held_back.kept(data.corpus()) if row.text not in known]
    parents = [Parent(read(path), slope) for path, slope in zip(paths, slopes, strict=True)]
    before = [parent.slope * spread(scored(parent.weights, out, rows, name)) for parent in parents]
    scores = scored(mean([parent.weights for parent in parents]), out, rows, name)
    found = curve(scores, float(np.mean(before)) / spread(scores), margin)
    artefact = Artefact.read(out)
    made = {"calibration": found, "made_by": "python -m training.soup, as sidecar/models/README.md says"}
    write(out, artefact.head, artefact.manifest.model_copy(update=made))
    network = Network()
    network.load_state_dict(mean([parent.weights for parent in parents]))
    click.echo(f"{len(rows)} rows; {found}; parity: {parity(network.eval(), out, rows, 100)}", err=True)


if __name__ == "__main__":
    main()
