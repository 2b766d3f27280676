"""Builds the shipped model: `python -m training.train --data DIR` (which is `make train DATA=DIR`).

One recipe from a public base to the shipped files: reduce the vocabulary, train the second stage in two phases, distil
the first stage from it, export both in eight bits, calibrate the export on the holdout, and measure it. Every
step stores its result in `--work`; an interrupted run continues with the same command. Only rows under permissive
licences and our own are read; `dev` files never.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import torch

from sidecar.detectors.semantic.artifact import SHIPPED, Calibration, Head, Manifest, ModelArtifact
from sidecar.detectors.semantic.cascade import FIRST_STAGE_FILE as FIRST_FILE
from sidecar.detectors.semantic.encoder import Session
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE as PIECES_FILE
from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from sidecar.detectors.semantic.texts import ChannelText
from training import blind, calibrate, evaluate, export, first_stage, folds, holdout, scores, vocabulary
from training import rows as data
from training.base import FILE, Base, verify
from training.documents import Documents, texts, whole
from training.frozen import write
from training.network import SIMILARITY, Network, begin
from training.rows import APPLICATION, OUTPUTS, Row
from training.trainer import Phase, Plan, Trainer

PIECES, NETWORK, TRAINED, FIRST = "pieces.npy", "network.pt", "trained.pt", "first.pt"
SIMILAR = 0.957
"""Cosine of two texts with the same meaning; of texts on other topics it is up to .96."""
SIZES = 90_000, 170_000
"""Rows of the two phases."""
LESSONS = 110_000
"""Windows that the first stage is trained on."""


@click.command()
@click.option(
    "--data", "folder", type=click.Path(path_type=Path, exists=True), required=True, help="has train.jsonl.gz and long/"
)
@click.option("--base", type=click.Path(path_type=Path, exists=True), default=FILE, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=SHIPPED["onnx"], show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/training"), show_default=True)
@click.option("--seed", default=Plan.seed, show_default=True)
@click.option("--without", type=click.IntRange(1, len(folds.FOLDS)), help="leave out this fold of the public sources")
def main(folder: Path, base: Path, out: Path, work: Path, seed: int, without: int | None) -> None:
    """Train, export, calibrate."""
    work.mkdir(parents=True, exist_ok=True)
    corpus, long = data.corpus(), Documents.read(folder)
    public = data.permissive(folder)
    rows = [*(folds.training_rows(public, without - 1) if without else public), *holdout.training_rows(corpus)]
    source = Base(verify(base))
    trainer, numbers = second(source, phases([*rows, *blind.rows()]), long, work, replace(Plan(), seed=seed))
    write_second(trainer.network, source, numbers, out)
    write_first(trainer, out, work)
    calibrated(folder, corpus, out)
    click.echo(f"parity: {parity(trainer, out)}", err=True)
    if without:
        evaluate.show(evaluate.figures(*evaluate.judged(folds.validation_rows(public, without - 1), out)))


def write_second(network: Network, base: Base, numbers: vocabulary.Numbers, out: Path) -> None:
    """Write the model folder with the second stage alone, not yet calibrated."""
    out.mkdir(parents=True, exist_ok=True)
    export.export(network, base, numbers, out / "model.onnx")
    (out / PIECES_FILE).write_bytes(vocabulary.model(base, numbers))
    described = Manifest(
        name="guard",
        version=hashlib.sha256((out / "model.onnx").read_bytes()).hexdigest()[:12],
        engine="onnx",
        channels=True,
        overlap=0,
        outputs=OUTPUTS,
        similarity=SIMILARITY,
        similar_from=SIMILAR,
        calibration=Calibration(),
        files=dict.fromkeys(("model.onnx", PIECES_FILE), ""),
        made_by="make train",
    )
    write(out, Head(network.head.weight.detach().numpy(), network.head.bias.detach().numpy(), OUTPUTS), described)


def write_first(trainer: Trainer, out: Path, work: Path) -> None:
    """Distil the first stage from the second and write it beside it, without an early-exit threshold."""
    if not (work / FIRST).exists():
        windows = trainer.windows(LESSONS)
        teacher = scores.second_stage(windows, out)
        model = first_stage.begin(trainer.network.words.weight.detach())
        first_stage.save(first_stage.train(model, windows, teacher.astype(np.float32)), work / FIRST)
    export.export_first(first_stage.load(work / FIRST), out / FIRST_FILE)
    artefact = ModelArtifact.read(out)
    files = dict.fromkeys((*artefact.manifest.files, FIRST_FILE), "")
    write(out, artefact.head, artefact.manifest.model_copy(update={"files": files}))


def calibrated(folder: Path, corpus: Sequence[Row], out: Path) -> None:
    """Fit the calibration on the holdout, and choose the first stage's early-exit threshold; both are written."""
    rows, documents = scores.score(holdout.holdout_rows(corpus), out), _documents(folder, out)
    sides = [[s for s in rows if (s.row.channel == APPLICATION) == apart] for apart in (False, True)]
    limit = calibrate.limit(sides[0], documents[0])
    apart = calibrate.limit(sides[1], documents[1], calibrate.APPLICATION_DOCUMENTS)
    apart = max(apart, limit)  # few of the application's texts are in the holdout
    artefact = ModelArtifact.read(out)
    application = calibrate.fit(rows, apart + calibrate.MARGIN, calibrate.APPLICATION_THRESHOLD)
    update = {
        "calibration": calibrate.fit(rows, limit + calibrate.MARGIN),
        "application": application,
        "long_prompts": calibrate.earlier(application, calibrate.LONG_PROMPTS),
        "definitions": calibrate.earlier(application, calibrate.DEFINITIONS),
        "early_exit_below": _early_exit_threshold(rows, out, min(limit, apart)),
    }
    write(out, artefact.head, artefact.manifest.model_copy(update=update))
    click.echo(f"blocks from logit {limit:.2f}, the application's texts from {apart:.2f}: {update}", err=True)


def _documents(folder: Path, out: Path) -> tuple[scores.Floats, scores.Floats]:
    """The worst logit of each holdout document and conversation, and of the application's texts in it."""
    held = [
        [ChannelText(part_text.text, part_text.channel) for part_text in texts(value)]
        for value in whole(folder, held=True)
    ]
    logits_left = iter(scores.logits([text for part in held for text in part], out))
    marked = [[(text.channel == APPLICATION, next(logits_left)[0]) for text in part] for part in held]
    worst = [
        [
            max(logits)
            for part in marked
            if (logits := [logit for is_application, logit in part if is_application == apart])
        ]
        for apart in (False, True)
    ]
    return np.array(worst[0]), np.array(worst[1])


def _early_exit_threshold(rows: Sequence[scores.Score], out: Path, limit: float) -> float:
    """The early-exit threshold of the first stage, from the attacks in the holdout."""
    scorer = scores.opened(out)
    small = Session(out / FIRST_FILE, "logit", SentencePieceTokenizer.read(out / PIECES_FILE), 1)
    windows = [(w.ids, s.row.channel) for s in rows if s.row.attack for w in scorer.windows(s.row.text)]
    predictions = np.array([float(small(ids, channel)[0, 0]) for ids, channel in windows])
    return calibrate.early_exit_threshold(predictions, scores.second_stage(windows, out), limit)


def parity(trainer: Trainer, out: Path) -> dict[str, float]:
    """How far the attack logits of the export differ from the network's on training windows."""
    windows = trainer.windows(500)
    drift = np.abs(scores.second_stage(windows, out) - np.array(trainer.scores_of(windows)))
    return {"windows": len(windows), "median": float(np.median(drift)), "p99": float(np.quantile(drift, 0.99))}


def phases(rows: Sequence[Row], sizes: tuple[int, int] = SIZES) -> list[Phase]:
    """First all rows but those of the last files, then all, mostly those that are like real requests."""
    first = [row for row in rows if row.source.removeprefix("corpus_") not in data.LAST]
    return [Phase(first, data.FIRST.of(first), sizes[0]), Phase(rows, data.SECOND.of(rows), sizes[1])]


def second(
    base: Base, phases: Sequence[Phase], long: Documents, work: Path, plan: Plan
) -> tuple[Trainer, vocabulary.Numbers]:
    """The trained second stage, and the numbers of its pieces, which are those of the first phase's texts."""
    numbers = _numbers(base, phases[0].rows, long, work / PIECES)
    pieces = SentencePieceTokenizer(vocabulary.model(base, numbers))
    torch.manual_seed(plan.seed)
    trainer = Trainer(begin(base, numbers), pieces, phases, long, plan)
    if (done := work / TRAINED).exists():
        trainer.network.load_state_dict(torch.load(done, weights_only=True))
    else:
        click.echo(
            f"{len(phases[-1].rows)} rows, {len(long.documents)} texts of documents, {len(pieces)} pieces", err=True
        )
        torch.save(trainer.run(work / NETWORK).state_dict(), done)
    return trainer, numbers


def _numbers(base: Base, rows: Sequence[Row], long: Documents, file: Path) -> vocabulary.Numbers:
    if not file.exists():
        texts = [*(row.text for row in rows), *(document.text for document in long.documents)]
        np.save(file, vocabulary.chosen(base, vocabulary.count(base, texts)))
    return np.asarray(np.load(file))


if __name__ == "__main__":
    main()
