"""The command `sidecar`: arguments in, exit code out."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from sidecar import __version__, app, config, console, coverage, evaluation, jsons, logs, memory, opinions, policy
from sidecar.admin import admin
from sidecar.bodies.tokens import Vocabularies
from sidecar.commands import CONFIG, JSON, emit, entry, load_settings
from sidecar.config import Settings
from sidecar.errors import ConfigError, SidecarError
from sidecar.evaluation import Outcome, Row
from sidecar.keys import keys
from sidecar.kubernetes import inject_command, quit_command, webhook_command
from sidecar.layers.rules import RulesLayer
from sidecar.manual import completion_command, show_examples
from sidecar.pipeline import Pipeline, pipeline
from sidecar.redirect import redirect_command
from sidecar.review import review
from sidecar.switches import switched
from sidecar.types import Action, ScanRequest, Segment
from sidecar.web.admin import base_url, bootstrap
from sidecar.web.api import explanation, result
from sidecar.workers import spread


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sidecar")
def main() -> None:
    """Scan prompts before they reach a large language model."""


@main.command()
@CONFIG
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes on one port.")
@click.option("--first-key/--no-first-key", default=True, help="Print a first API key when the store holds none.")
def serve(config_file: Path | None, workers: int, first_key: bool) -> None:
    """Serve the scan API and the inline proxy until SIGTERM."""
    memory.bound()
    number = 0
    if workers > 1:
        _shared = _loaded(config_file)
        memory.settle()
        number = spread(workers)
    _serve(config_file, share_ports=workers > 1, first_key=first_key and not number)


def _loaded(config_file: Path | None) -> object:
    """What all workers have in common, once; what is wrong with it each will say for itself."""
    with suppress(SidecarError):
        settings = load_settings(config_file)
        return (
            RulesLayer(switched(policy.load(settings.policies), settings.rules))
            if settings.layers.rules.enabled
            else None
        )
    return None


@entry
async def _serve(config_file: Path | None, *, share_ports: bool, first_key: bool) -> int:
    settings = load_settings(config_file)
    stop = app.stop_on_signal()
    for warning in console.warnings(settings):
        logs.get("cli").warning("setting_risky", setting=warning)
    source = config_file or Path("config.yaml")
    async with app.Sidecar(
        settings, share_ports=share_ports, config_file=source, read=lambda: config.load(config_file)
    ) as running:
        app.reload_on_signal(running)
        memory.settle()
        if first_key:
            await _greet(running)
        await stop.wait()
    return 0


async def _greet(running: app.Sidecar) -> None:
    """A first key and the dashboard's first link, where there are none yet."""
    if not await running.keyring.list():
        _, value = await running.keyring.create("first key", environment="development")
        console.greet(value, running.data_port, running.settings)
    if link := await bootstrap(running.store, base_url(running.settings, running.admin_port)):
        console.show_link(link)


@main.command()
@click.option(
    "--coverage",
    "covered",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Count every rule on a labelled file (.jsonl, .jsonl.gz) or on benign texts, one a line.",
)
@JSON
@CONFIG
@entry
async def check(covered: Path | None, as_json: bool, config_file: Path | None) -> int:
    """Validate the configuration and prove the policies; start nothing."""
    settings = load_settings(config_file)
    rows = coverage.read(covered) if covered else []
    Vocabularies(settings.inline.vocabularies)
    async with pipeline(settings) as built:
        found = coverage.report(built.policy, await _run_rows(built, rows, 1)) if covered else {}
    if as_json:
        emit({"rules": len(built.policy.rules), "revision": built.policy.revision, "coverage": found or None})
        return 0
    console.show_settings(settings, built.policy)
    if found:
        console.show_coverage(found)
    return 0


@main.command()
@click.argument("text")
@click.option("--system-prompt", help="The application's system prompt, to detect its extraction.")
@click.option("--explain", is_flag=True, help="All findings, spans and layers.")
@JSON
@CONFIG
@entry
async def scan(text: str, system_prompt: str | None, explain: bool, as_json: bool, config_file: Path | None) -> int:
    """Scan one TEXT, or standard input with "-". Exit code 0: allow, 1: block, 2: error."""
    prompt = _read_stdin() if text == "-" else text
    async with pipeline(load_settings(config_file), prove=False) as built:
        verdict = await built.engine.scan(ScanRequest((Segment(prompt),), system_prompt))
        if as_json:
            shape = explanation if explain else result
            emit({**shape(verdict), **({"failure": verdict.failure} if verdict.failure else {})})
        else:
            console.show_verdict(verdict, built.policy, explain=explain)
    if verdict.failure:
        return 2
    return 1 if verdict.action is Action.BLOCK else 0


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("standard input cannot be read", [f"not UTF-8 at byte {error.start}"]) from None


@main.command("eval")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--layers", help="Comma-separated: rules,semantic,llm_judge [default: as configured]")
@click.option("--out", "out_file", type=click.Path(dir_okay=False, path_type=Path), help="A JSON line per row.")
@click.option("--limit", type=click.IntRange(1), help="The first N rows; with a judge, N that it is asked about.")
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Rows at a time.")
@JSON
@CONFIG
@entry
async def evaluate(
    file: Path,
    layers: str | None,
    out_file: Path | None,
    limit: int | None,
    concurrency: int,
    as_json: bool,
    config_file: Path | None,
) -> int:
    """Measure recall and false positives on a labelled FILE (.jsonl or .jsonl.gz).

    With a judge also what it is worth, beside the other layers on the same rows inside its band.
    """
    settings = _choose(load_settings(config_file), layers)
    judge = settings.layers.llm_judge
    rows = evaluation.read_rows(file)
    rows = opinions.shuffled(rows) if judge.url and limit else rows[:limit]
    spent = opinions.tokens_spent()
    async with pipeline(settings, prove=False) as built:
        outcomes = await _run_rows(built, rows, concurrency, limit if judge.url else None)
    if out_file:
        await asyncio.to_thread(_write_rows, out_file, outcomes)
    found = evaluation.report(outcomes)
    if judge.url:
        tokens = opinions.tokens_spent() - spent
        found["judge"] = opinions.report(outcomes, judge, settings.scan.threshold, tokens)
    if as_json:
        emit(found)
    else:
        console.show_report(found)
    return 0


def _write_rows(path: Path, outcomes: list[Outcome]) -> None:
    try:
        path.write_bytes(b"".join(jsons.dumps(outcome.line()) + b"\n" for outcome in outcomes))
    except OSError as error:
        raise ConfigError("--out", [f"{path}: {error.strerror}"]) from None


def _choose(settings: Settings, layers: str | None) -> Settings:
    """The same settings with just these layers. `llm_judge` alone keeps the others: it is measured inside its band."""
    if layers is None:
        return settings
    wanted = {name.strip() for name in layers.split(",")}
    if unknown := wanted - {"rules", "semantic", "llm_judge"}:
        raise ConfigError("--layers", [f"unknown layer {name!r}" for name in sorted(unknown)])
    if "llm_judge" in wanted and settings.layers.llm_judge.url is None:
        raise ConfigError("--layers", ["llm_judge needs layers.llm_judge.url"])
    given = settings.layers
    judge = opinions.unmetered(given.llm_judge)
    if wanted == {"llm_judge"}:
        return settings.model_copy(update={"layers": given.model_copy(update={"llm_judge": judge})})
    chosen = config.Layers(
        rules=given.rules.model_copy(update={"enabled": "rules" in wanted}),
        semantic=given.semantic.model_copy(update={"enabled": "semantic" in wanted}),
        llm_judge=judge if "llm_judge" in wanted else judge.model_copy(update={"url": None}),
    )
    return settings.model_copy(update={"layers": chosen})


async def _run_rows(built: Pipeline, rows: list[Row], concurrency: int, judged: int | None = None) -> list[Outcome]:
    """Scan the rows, so many at a time; all, or until the judge was asked about `judged` of them."""
    waiting = iter(enumerate(rows))
    left = math.inf if judged is None else judged
    outcomes: dict[int, Outcome] = {}
    with console.progress() as bar:
        task = bar.add_task("scanning", total=len(rows))

        async def work() -> None:
            nonlocal left
            for index, row in waiting:
                started = time.perf_counter()
                verdict = await built.engine.scan(row.request())
                outcomes[index] = Outcome(row, verdict, time.perf_counter() - started)
                bar.advance(task)
                left -= opinions.asked(outcomes[index])
                if left <= 0:
                    return

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return [outcomes[index] for index in sorted(outcomes)]


main.add_command(admin)
main.add_command(inject_command)
main.add_command(quit_command)
main.add_command(redirect_command)
main.add_command(webhook_command)
main.add_command(review)
main.add_command(keys)
main.add_command(completion_command)
show_examples(main)
