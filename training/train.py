"""Builds the shipped model: `python -m training.train --data DIR` (which is `make train DATA=DIR`).

One recipe from a public base to the shipped files: reduce the vocabulary, train the second stage in two phases, distil
the first stage from it, export both in eight bits, calibrate the export on the holdout, and measure it. Every
step stores its result in `--work`; an interrupted run continues with the same command. Only rows under permissive
licences and our own are read; `dev` files never.

`--start MODEL` makes another model instead: it continues an exported one with the rows that came later (`LATEST`). The
shipped model is not made that way: its blind figures were no better (docs/detection-log.md).
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
from sidecar.detectors.semantic.batcher import ChannelText
from sidecar.detectors.semantic.cascade import FIRST_STAGE_FILE as FIRST_FILE
from sidecar.detectors.semantic.encoder import Session
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE as PIECES_FILE
from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from training import (
    blind,
    calibrate,
    evaluate,
    expand,
    export,
    first_stage,
    folds,
    holdout,
    restored,
    scores,
    vocabulary,
)
from training import rows as data
from training.base import FILE, Base, verify
from training.documents import Documents, texts, whole
from training.first_stage import FirstStage
from training.frozen import write
from training.network import SIMILARITY, Network, begin
from training.rows import APPLICATION, OUTPUTS, Row
from training.trainer import Phase, Plan, Trainer

PIECES, NETWORK, TRAINED, FIRST = "pieces.npy", "network.pt", "trained.pt", "first.pt"
CONTINUED = "continued.pt"
SIMILAR = 0.957
"""Cosine of two texts with the same meaning; of texts on other topics it is up to .96."""
SIZES = 90_000, 170_000, 40_000
"""Rows of the three phases."""
CONTINUED_RATE = 7e-5
"""The highest learning rate of the third phase: it adds to what the network knows."""
LESSONS, CONTINUED_LESSONS, CONTINUED_ROUNDS = 110_000, 60_000, 3
"""Windows that the first stage is trained on; windows and epochs with which it follows the second."""


@click.command()
@click.option(
    "--data", "folder", type=click.Path(path_type=Path, exists=True), required=True, help="has train.jsonl.gz and long/"
)
@click.option("--base", type=click.Path(path_type=Path, exists=True), default=FILE, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=SHIPPED["onnx"], show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/training"), show_default=True)
@click.option("--start", type=click.Path(path_type=Path, exists=True), help="continue this model with the latest rows")
@click.option("--seed", default=Plan.seed, show_default=True)
@click.option("--without", type=click.IntRange(1, len(folds.FOLDS)), help="leave out this fold of the public sources")
def main(folder: Path, base: Path, out: Path, work: Path, start: Path | None, seed: int, without: int | None) -> None:
    """Train, export, calibrate."""
    work.mkdir(parents=True, exist_ok=True)
    corpus, long = data.corpus(), Documents.read(folder)
    public = data.permissive(folder)
    rows = [*(folds.training_rows(public, without - 1) if without else public), *holdout.training_rows(corpus)]
    rows += blind.rows()
    source, plan = Base(verify(base)), replace(Plan(), seed=seed)
    if start:
        trainer = continued(start, source, third(rows), long, work / CONTINUED, plan)
        numbers, first = restored.numbers(start, source), restored.first_stage(start)
        lessons = CONTINUED_LESSONS, CONTINUED_ROUNDS
    else:
        trainer, numbers = second(source, phases(rows), long, work, plan)
        first = first_stage.begin(trainer.network.words.weight.detach())
        lessons = LESSONS, first_stage.ROUNDS
    write_second(trainer.network, source, numbers, out)
    write_first(trainer, out, work / FIRST, first, *lessons)
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


def write_first(trainer: Trainer, out: Path, done: Path, model: FirstStage, lessons: int, rounds: int) -> None:
    """Distil the first stage from the second and write it beside it, without an early-exit threshold."""
    if not done.exists():
        windows = trainer.windows(lessons)
        teacher = scores.second_stage(windows, out)
        first_stage.save(first_stage.train(model, windows, teacher.astype(np.float32), rounds=rounds), done)
    export.export_first(first_stage.load(done), out / FIRST_FILE)
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
    update = {
        "calibration": calibrate.fit(rows, limit + calibrate.MARGIN),
        "application": calibrate.fit(rows, apart + calibrate.MARGIN, calibrate.APPLICATION_THRESHOLD),
        **_early_exit_thresholds(rows, out, min(limit, apart)),
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


def _early_exit_thresholds(rows: Sequence[scores.Score], out: Path, limit: float) -> dict[str, float]:
    """The thresholds of the first stage, from the attacks in the holdout."""
    scorer = scores.opened(out)
    small = Session(out / FIRST_FILE, "logit", SentencePieceTokenizer.read(out / PIECES_FILE), 1)
    windows = [(w.ids, s.row.channel) for s in rows if s.row.attack for w in scorer.windows(s.row.text)]
    predictions = np.array([float(small(ids, channel)[0, 0]) for ids, channel in windows])
    logits = scores.second_stage(windows, out)
    return {
        "early_exit_below": calibrate.early_exit_threshold(predictions, logits, limit),
        "dismiss_below": calibrate.early_exit_threshold(predictions, logits, limit, calibrate.LOST_BEYOND_BUDGET),
    }


def parity(trainer: Trainer, out: Path) -> dict[str, float]:
    """How far the attack logits of the export differ from the network's on training windows."""
    windows = trainer.windows(500)
    drift = np.abs(scores.second_stage(windows, out) - np.array(trainer.scores_of(windows)))
    return {"windows": len(windows), "median": float(np.median(drift)), "p99": float(np.quantile(drift, 0.99))}


def phases(rows: Sequence[Row]) -> list[Phase]:
    """First all rows but those of the last files, then these as well, mostly those that are like real requests."""
    second = [row for row in rows if not data.is_latest(row)]
    first = [row for row in second if row.source.removeprefix("corpus_") not in data.LAST]
    return [Phase(first, data.FIRST.of(first), SIZES[0]), Phase(second, data.SECOND.of(second), SIZES[1])]


def third(rows: Sequence[Row]) -> list[Phase]:
    """All rows, mostly the latest."""
    return [Phase(rows, data.THIRD.of(rows), SIZES[2], expand.shares(moved=True))]


def continued(start: Path, base: Base, phases: Sequence[Phase], long: Documents, done: Path, plan: Plan) -> Trainer:
    """The trained second stage after further phases, from the export of the earlier ones."""
    pieces = SentencePieceTokenizer.read(start / PIECES_FILE)
    network = restored.network(start, base)
    torch.manual_seed(plan.seed)
    trainer = Trainer(network, pieces, phases, long, replace(plan, rate=CONTINUED_RATE))
    if done.exists():
        trainer.network.load_state_dict(torch.load(done, weights_only=True))
    else:
        torch.save(trainer.run(done.with_name(f"checkpoint-{done.name}")).state_dict(), done)
    return trainer


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
