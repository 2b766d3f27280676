"""The command `sidecar eval`: measures detection on a labelled file, and compares two such measurements."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sidecar import config, evaluation
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.report_tables import show_comparison, show_errors, show_report
from sidecar.cli.terminal import for_each
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, UnitScanner, comparison, judge_report
from sidecar.evaluation.html_report import html, wrong
from sidecar.evaluation.report import Figures
from sidecar.runtime.builder import open_scanner
from sidecar.scan.service import ScanService
from sidecar.util import json

BEGINNING = 4096
"""Bytes of an existing file by which one that this command wrote is recognized."""
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command("eval", short_help="Measure detection on a labelled file.")
@click.argument("files", nargs=-1, required=True, metavar="FILE | diff A B", type=_OUT)
@click.option("--label", type=click.Choice(["attack", "benign"]), help="For lines without a label, as in a .txt file.")
@click.option("--layers", help="Comma-separated: rules,semantic,llm_judge [default: as configured]")
@click.option("--growing", is_flag=True, help="Every request of a conversation as it grows, not the whole at once.")
@click.option("--errors", is_flag=True, help="List the missed attacks and the false positives, with their texts.")
@click.option("--out", "out_file", type=_OUT, help="A JSON line per row, without texts; two of them can be compared.")
@click.option("--html", "html_file", type=_OUT, help="A report with plots and the wrong rows, in one file.")
@click.option("--limit", type=click.IntRange(1), help="The first N rows; with a judge, N that it is asked about.")
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Rows at a time.")
@JSON
@CONFIG
@async_command
async def evaluate(files: tuple[Path, ...], config_file: Path | None, **chosen: Any) -> int:
    """Measure recall and false positives on a labelled FILE, or compare two runs that --out wrote: diff A B.

    FILE is .jsonl, .csv (columns text and label) or .txt (a text per line, with --label), also with .gz. A line of JSON
    is {"text": "...", "label": "attack"} or {"text": "...", "label": "benign"}; documents, conversations and the four
    kinds of attacks are in docs/detection-method.md. Unknown labels are errors with their line. With a judge, it
    is also compared with the other layers on the same rows inside its band.
    """
    options = Choices(**chosen)
    if str(files[0]) == "diff" and len(files) == 3:
        return _compare(files[1], files[2], as_json=options.as_json)
    if len(files) != 1:
        raise ConfigError("sidecar eval", ["name one FILE, or: diff A B"])
    settings = _choose(load_settings(config_file), options.layers)
    rows = evaluation.read_rows(files[0], options.label)
    _check_outputs(files[0], options)
    outcomes, figures = await _measure(settings, rows, options)
    await asyncio.to_thread(_write_files, files[0], options, outcomes, figures, settings.scan.threshold)
    found = wrong(outcomes) if options.errors else None
    if options.as_json:
        emit(figures if found is None else {**figures, "errors": [one._asdict() for one in found]})
    else:
        show_report(figures)
        show_errors(found)
    return 0


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of the command."""

    label: str | None
    layers: str | None
    growing: bool
    errors: bool
    out_file: Path | None
    html_file: Path | None
    limit: int | None
    concurrency: int
    as_json: bool


async def _measure(settings: Settings, rows: list[Row], options: Choices) -> tuple[list[Outcome], Figures]:
    judge, limit = settings.layers.llm_judge, options.limit
    rows = judge_report.shuffled(rows) if judge.url and limit else rows[:limit]
    tokens_before = judge_report.tokens_spent()
    # A growing conversation uses the result cache, as on a server.
    secret = os.urandom(32) if options.growing else None
    async with open_scanner(settings, selftests=False, secret=secret) as built:
        scanner = UnitScanner(ScanService(built.engine, settings).scan, settings, growing=options.growing)
        outcomes = await run(scanner, rows, options.concurrency, limit if judge.url else None)
    figures = evaluation.report(outcomes)
    if judge.url:
        tokens = judge_report.tokens_spent() - tokens_before
        figures["judge"] = judge_report.report(outcomes, judge, settings.scan.threshold, tokens)
    return outcomes, figures


def _compare(first: Path, second: Path, *, as_json: bool) -> int:
    figures = comparison.compare(comparison.read_run(first), comparison.read_run(second))
    if as_json:
        emit(figures)
    else:
        show_comparison(figures)
    return 0


def _check_outputs(file: Path, options: Choices) -> None:
    """Raise `ConfigError` before the scan if an output would fail, or overwrite the input or a foreign file."""
    outputs = {"--out": options.out_file, "--html": options.html_file}
    problems = [
        f"{option} {path}: {reason}" for option, path in outputs.items() if path and (reason := _refusal(file, path))
    ]
    if options.out_file and options.html_file and options.out_file.absolute() == options.html_file.absolute():
        problems.append("--out and --html name the same file")
    if problems:
        raise ConfigError("sidecar eval", problems)


def _refusal(file: Path, output_file: Path) -> str | None:
    if not output_file.parent.is_dir():
        return "there is no such folder"
    if not output_file.exists():
        return None
    if output_file.samefile(file):
        return "is the file that is measured, and would be overwritten"
    try:
        beginning = output_file.read_bytes()[:BEGINNING]
    except OSError as error:
        return error.strerror
    is_run = beginning.startswith(b'{"id":') and b'"latency_ms":' in beginning.partition(b"\n")[0]
    if not beginning or is_run or beginning.lstrip().lower().startswith(b"<!doctype html>"):
        return None
    return "exists and was not written by sidecar eval; remove it, or name another file"


def _write_files(file: Path, options: Choices, outcomes: list[Outcome], figures: Figures, threshold: float) -> None:
    if options.out_file:
        _write("--out", options.out_file, b"".join(json.dumps(one.line()) + b"\n" for one in outcomes))
    if options.html_file:
        page = html(outcomes, figures, name=file.name, threshold=threshold)
        _write("--html", options.html_file, page.encode("utf-8", "replace"))


def _write(option: str, path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(option, [f"{path}: {error.strerror}"]) from None


def _choose(settings: Settings, layers: str | None) -> Settings:
    """The same settings with just these layers. `llm_judge` alone keeps the others: it is measured inside its band."""
    if layers is None:
        return settings
    names = {name.strip() for name in layers.split(",")}
    if unknown := names - {"rules", "semantic", "llm_judge"}:
        known = "rules, semantic, llm_judge"
        raise ConfigError("--layers", [f"unknown layer {name!r}; the layers are {known}" for name in sorted(unknown)])
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
    remaining = math.inf if judged is None else judged

    def enough(outcome: Outcome) -> bool:
        nonlocal remaining
        remaining -= judge_report.was_asked(outcome)
        return remaining <= 0

    return await for_each("scanning", rows, scanner.outcome, concurrency, enough)
