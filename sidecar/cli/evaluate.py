"""The command `sidecar eval`: measures detection on a labelled file of rows, documents and conversations."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from pathlib import Path

import click

from sidecar import config, evaluation
from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.report_tables import show_report
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, UnitScanner, judge_report
from sidecar.runtime.builder import open_scanner
from sidecar.scan.service import ScanService
from sidecar.util import json


@click.command("eval")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--layers", help="Comma-separated: rules,semantic,llm_judge [default: as configured]")
@click.option("--growing", is_flag=True, help="Every request of a conversation as it grows, not the whole at once.")
@click.option("--out", "out_file", type=click.Path(dir_okay=False, path_type=Path), help="A JSON line per row.")
@click.option("--limit", type=click.IntRange(1), help="The first N rows; with a judge, N that it is asked about.")
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Rows at a time.")
@JSON
@CONFIG
@async_command
async def evaluate(
    file: Path,
    layers: str | None,
    growing: bool,
    out_file: Path | None,
    limit: int | None,
    concurrency: int,
    as_json: bool,
    config_file: Path | None,
) -> int:
    """Measure recall and false positives on a labelled FILE (.jsonl or .jsonl.gz).

    A line is a text, a whole document, or a conversation (docs/detection-method.md has the format). With a judge,
    it is also compared with the other layers on the same rows inside its band.
    """
    settings = _choose(load_settings(config_file), layers)
    judge = settings.layers.llm_judge
    rows = evaluation.read_rows(file)
    rows = judge_report.shuffled(rows) if judge.url and limit else rows[:limit]
    tokens_before = judge_report.tokens_spent()
    # A growing conversation uses the result cache, as on a server.
    async with open_scanner(settings, selftests=False, secret=os.urandom(32) if growing else None) as built:
        scanner = UnitScanner(ScanService(built.engine, settings).scan, settings, growing=growing)
        outcomes = await run(scanner, rows, concurrency, limit if judge.url else None)
    if out_file:
        await asyncio.to_thread(_write_rows, out_file, outcomes)
    figures = evaluation.report(outcomes)
    if judge.url:
        tokens = judge_report.tokens_spent() - tokens_before
        figures["judge"] = judge_report.report(outcomes, judge, settings.scan.threshold, tokens)
    if as_json:
        emit(figures)
    else:
        show_report(figures)
    return 0


def _write_rows(path: Path, outcomes: list[Outcome]) -> None:
    try:
        path.write_bytes(b"".join(json.dumps(outcome.line()) + b"\n" for outcome in outcomes))
    except OSError as error:
        raise ConfigError("--out", [f"{path}: {error.strerror}"]) from None


def _choose(settings: Settings, layers: str | None) -> Settings:
    """The same settings with just these layers. `llm_judge` alone keeps the others: it is measured inside its band."""
    if layers is None:
        return settings
    names = {name.strip() for name in layers.split(",")}
    if unknown := names - {"rules", "semantic", "llm_judge"}:
        raise ConfigError("--layers", [f"unknown layer {name!r}" for name in sorted(unknown)])
    if "llm_judge" in names and settings.layers.llm_judge.url is None:
        raise ConfigError("--layers", ["llm_judge needs layers.llm_judge.url"])
    configured = settings.layers
    judge = judge_report.unmetered(configured.llm_judge)
    if names == {"llm_judge"}:
        return settings.model_copy(update={"layers": configured.model_copy(update={"llm_judge": judge})})
    enabled = config.Layers(
        rules=configured.rules.model_copy(update={"enabled": "rules" in names}),
        semantic=configured.semantic.model_copy(update={"enabled": "semantic" in names}),
        llm_judge=judge if "llm_judge" in names else judge.model_copy(update={"url": None}),
    )
    return settings.model_copy(update={"layers": enabled})


async def run(scanner: UnitScanner, rows: Sequence[Row], concurrency: int, judged: int | None = None) -> list[Outcome]:
    """Scan the rows, `concurrency` at a time; all, or until the judge was asked about `judged` of them."""
    waiting = iter(enumerate(rows))
    remaining = math.inf if judged is None else judged
    outcomes: dict[int, Outcome] = {}
    with output.progress() as bar:
        task = bar.add_task("scanning", total=len(rows))

        async def work() -> None:
            nonlocal remaining
            for index, row in waiting:
                outcomes[index] = await scanner.outcome(row)
                bar.advance(task)
                remaining -= judge_report.was_asked(outcomes[index])
                if remaining <= 0:
                    return

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return [outcomes[index] for index in sorted(outcomes)]
