"""Makes the shipped model: `python -m training.train --data DIR` (which is `make train DATA=DIR`).

Reads our corpus and `train.jsonl.gz`, trains on all of them, calibrates on sources left out of training,
exports to int8 and shows that the export is true. Each stage keeps its result in `--work`, so that a run that
was stopped goes on; `dev.jsonl.gz`, if it is there, is looked at when everything is decided.
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
from training.trainer import Plan, Trainer

PLAN = Plan()
FOLD_DRAWS = 0.15
"""How much of the plan a network for one calibration fold gets."""
CERTAIN = 0.97
"""A window this probable ends the reading of a text."""


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
    rows = [*data.permissive(folder), *held_back.taught(data.corpus())]
    plan = replace(PLAN, draws=draws, seed=seed)
    key = fingerprint(rows, plan)
    click.echo(f"{len(rows)} rows, {sum(row.own for row in rows)} of them our own; run {key}", err=True)
    network = trained(rows, plan, work / f"network-{key}.pt")
    calibration = calibrated(rows, plan, work / f"calibration-{key}.json")
    ship(network, calibration, out, key)
    click.echo(f"parity: {parity(network, out, rows)}", err=True)
    if (folder / "dev.jsonl.gz").exists():
        evaluate.show(evaluate.measure(folder / "dev.jsonl.gz", out, threads))


def fingerprint(rows: Sequence[Row], plan: Plan) -> str:
    """Names a run by everything that it depends on."""
    told = orjson.dumps([[row.id, row.text, sorted(row.labels), row.indirect] for row in rows])
    return hashlib.sha256(told + orjson.dumps(asdict(plan))).hexdigest()[:12]


def calibrated(rows: Sequence[Row], plan: Plan, kept: Path) -> Calibration:
    """The calibration from left-out sources, or the one that was kept."""
    if not kept.exists():
        scores = list(calibrate.held_out(rows, replace(plan, draws=int(plan.draws * FOLD_DRAWS), rounds=1)))
        lines = [[s.row.id, s.row.source, s.row.attack, s.logit, s.windows] for s in scores]
        kept.with_suffix(".scores.json").write_bytes(orjson.dumps(lines))
        kept.write_text(calibrate.fit(scores).model_dump_json(), "utf-8")
    return Calibration.model_validate_json(kept.read_text("utf-8"))


def trained(rows: Sequence[Row], plan: Plan, kept: Path) -> Network:
    """The network after all rounds; goes on after the last one that was kept."""
    trainer = Trainer(rows, plan)
    if kept.exists():
        trainer.restore(kept)
    return trainer.run(kept)


def ship(network: Network, calibration: Calibration, out: Path, key: str) -> None:
    """Write the model folder."""
    out.mkdir(parents=True, exist_ok=True)
    export(network, out / "model.onnx")
    shutil.copy(base_folder() / "tokenizer.json", out / "tokenizer.json")
    head = Head(network.head.weight.detach().numpy(), network.head.bias.detach().numpy(), OUTPUTS)
    certain = (
        np.log(CERTAIN / (1 - CERTAIN)) - calibration.offset - calibration.per_log_windows * 6
    ) / calibration.slope
    manifest = Manifest(
        name="guard",
        version=key,
        engine="onnx",
        channels=True,
        outputs=OUTPUTS,
        similarity=SIMILARITY,
        calibration=calibration,
        certain=round(float(certain), 4),
        files=dict.fromkeys(("model.onnx", "tokenizer.json"), ""),
        made_by="make train",
    )
    write(out, head, manifest)


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
