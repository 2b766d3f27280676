"""Makes the shipped model: `python -m training.train --data DIR` (which is `make train DATA=DIR`).

Reads `train.jsonl.gz` and our corpus without the families that are held back, trains, exports to int8, calibrates the
export on what was held back and shows that the export is true. A checkpoint in `--work` lets a run that was stopped
go on; `dev.jsonl.gz`, if it is there, is looked at when everything is decided.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
import numpy as np
import orjson
import torch

from sidecar.layers.artefact import SHIPPED, Artefact, Calibration, Head, Manifest
from sidecar.layers.embedding import OnnxEncoder
from training import calibrate, evaluate, held_back
from training import rows as data
from training.export import export
from training.frozen import write
from training.network import SIMILARITY, Network, base_folder, torch_batch
from training.rows import OUTPUTS, Row
from training.scores import score
from training.trainer import Plan, Trainer

PLAN = Plan()


@click.command()
@click.option(
    "--data", "folder", type=click.Path(path_type=Path, exists=True), required=True, help="has train.jsonl.gz"
)
@click.option("--out", type=click.Path(path_type=Path), default=SHIPPED["onnx"], show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/training"), show_default=True)
@click.option("--draws", default=PLAN.draws, show_default=True, help="rows drawn over all rounds")
@click.option("--seed", default=PLAN.seed, show_default=True)
@click.option("--threads", default=2, show_default=True)
def main(folder: Path, out: Path, work: Path, draws: int, seed: int, threads: int) -> None:
    """Train, calibrate, export."""
    torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    own = data.corpus()
    rows = [*data.permissive(folder), *held_back.taught(own)]
    plan = replace(PLAN, draws=draws, seed=seed)
    key = fingerprint(rows, plan)
    click.echo(f"{len(rows)} rows, {sum(row.own for row in rows)} of them our own; run {key}", err=True)
    network = trained(rows, plan, work / f"network-{key}.pt")
    ship(network, out, key)
    calibrated(out, held_back.kept(own), threads)
    click.echo(f"parity: {parity(network, out, rows)}", err=True)
    if (folder / "dev.jsonl.gz").exists():
        evaluate.show(evaluate.measure(folder / "dev.jsonl.gz", out, threads))


def fingerprint(rows: Sequence[Row], plan: Plan) -> str:
    """Names a run by everything that it depends on."""
    told = orjson.dumps([[row.id, row.text, sorted(row.labels), row.indirect] for row in rows])
    return hashlib.sha256(told + orjson.dumps(asdict(plan))).hexdigest()[:12]


def trained(rows: Sequence[Row], plan: Plan, kept: Path) -> Network:
    """The network after all rounds; goes on after the last one that was kept."""
    trainer = Trainer(rows, plan)
    if kept.exists():
        trainer.restore(kept)
    return trainer.run(kept)


def ship(network: Network, out: Path, key: str) -> None:
    """Write the model folder, not yet calibrated."""
    out.mkdir(parents=True, exist_ok=True)
    export(network, out / "model.onnx")
    shutil.copy(base_folder() / "tokenizer.json", out / "tokenizer.json")
    head = Head(network.head.weight.detach().numpy(), network.head.bias.detach().numpy(), OUTPUTS)
    manifest = Manifest(
        name="guard",
        version=key,
        engine="onnx",
        channels=True,
        outputs=OUTPUTS,
        similarity=SIMILARITY,
        calibration=Calibration(),
        files=dict.fromkeys(("model.onnx", "tokenizer.json"), ""),
        made_by="make train",
    )
    write(out, head, manifest)


def calibrated(out: Path, rows: Sequence[Row], threads: int) -> None:
    """Fit the calibration of the model folder on rows that it never saw, and write it there."""
    artefact = Artefact.read(out)
    encoder = OnnxEncoder(artefact, threads)
    scores = score(rows, encoder.tokenizer, lambda found: evaluate.logits(found, encoder, artefact))
    write(out, artefact.head, artefact.manifest.model_copy(update={"calibration": calibrate.fit(scores)}))


def parity(network: Network, out: Path, rows: Sequence[Row], count: int = 500) -> dict[str, float]:
    """The export against the network on so many texts: cosine of the features, and the attack logits."""
    artefact = Artefact.read(out)
    encoder = OnnxEncoder(artefact, 2)
    ids = [
        encoder.tokenizer.encode(row.text, add_special_tokens=False).ids[:126] for row in rows[:: len(rows) // count]
    ]
    indirect = [row.indirect for row in rows[:: len(rows) // count]]
    cosines, drift = [], []
    for start in range(0, len(ids), 16):
        part = slice(start, start + 16)
        with torch.inference_mode():
            logits, found = network(*torch_batch(encoder.pad(ids[part], indirect[part])))
        other = encoder.features(ids[part], indirect[part])
        cosines.extend(torch.nn.functional.cosine_similarity(found, torch.from_numpy(other)).tolist())
        drift.extend(np.abs(artefact.head.logits(other)[:, 0] - logits[:, 0].numpy()).tolist())
    return {
        "texts": len(ids),
        "cosine_mean": round(float(np.mean(cosines)), 4),
        "cosine_least": round(min(cosines), 4),
        "logit_drift_median": round(float(np.median(drift)), 3),
        "logit_drift_p99": round(float(np.quantile(drift, 0.99)), 3),
    }


if __name__ == "__main__":
    main()
