"""The command `sidecar harden`: disguises attacks that are caught until one gets through, and proposes rules."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sidecar import evaluation
from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.evaluate import run
from sidecar.cli.harden_tables import show_figures, show_rules
from sidecar.cli.terminal import for_each
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, UnitScanner
from sidecar.harden import Mutation, Result, Search
from sidecar.harden.fragment import HEAD, policy_file
from sidecar.harden.mutations import class_names, singles
from sidecar.harden.proposals import Proposals, propose
from sidecar.harden.report import Figures, report
from sidecar.harden.search import DEFAULT_BUDGET
from sidecar.runtime.builder import open_scanner
from sidecar.scan.service import ScanService

_FILE = click.Path(dir_okay=False, path_type=Path)
MIN_DEADLINE = 60.0
"""Seconds for one scan: a busy machine must not decide what gets through."""


@click.command("harden", short_help="Disguise caught attacks until one gets through.")
@click.argument("file", type=_FILE)
@click.option(
    "--budget", type=click.IntRange(1), default=DEFAULT_BUDGET, show_default=True, help="Mutations of each attack."
)
@click.option("--classes", help="Comma-separated classes of disguises [default: all]")
@click.option("--thorough", is_flag=True, help="Go on with the other classes after the first that gets through.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the order of the disguises.")
@click.option(
    "--rules", "rules_file", type=_FILE, metavar="OUT.yaml", help="Write the proposed rules to a policy file."
)
@click.option("--limit", type=click.IntRange(1), help="The first N attacks.")
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Attacks at a time.")
@JSON
@CONFIG
@async_command
async def harden(file: Path, config_file: Path | None, **values: Any) -> int:
    """Disguise the attacks of FILE that are caught until one gets through, and propose rules against it.

    FILE is what `sidecar eval` reads; lines without a label are attacks, benign ones keep rules from matching them.
    Classes: wordings, spellings, scripts, separators, encodings, markup, framings. Single disguises come first, in two
    thirds of the budget, then pairs of those that lowered the score most. The judge is not asked, and nothing is sent.
    """
    options = Choices(**values)
    mutations = singles(class_names(options.classes))
    _require_folder(options.rules_file)
    attacks, benign = _rows(file)
    settings = _offline(load_settings(config_file))
    outcomes, results = await _search(settings, attacks[: options.limit], mutations, options)
    output.progress_line("looking for rules against what got through ...", quiet=options.as_json)
    proposals = await propose(results, benign)
    figures = {"budget": options.budget, "seed": options.seed, **report(outcomes, results), **_of_rules(proposals)}
    if options.rules_file:
        await asyncio.to_thread(_write, options.rules_file, policy_file(proposals.rules))
    _show(figures, options)
    return 0


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of the command."""

    budget: int
    classes: str | None
    thorough: bool
    seed: int
    rules_file: Path | None
    limit: int | None
    concurrency: int
    as_json: bool


def _require_folder(file: Path | None) -> None:
    """Refuse before a long search what could not be written after it, or would not be loaded."""
    if file is not None and not file.parent.is_dir():
        raise ConfigError("--rules", [f"{file}: there is no folder {file.parent}"])
    if file is not None and file.suffix != ".yaml":
        raise ConfigError("--rules", [f"{file}: the name of a policy file ends in .yaml"])
    if file is not None and file.exists() and not (file.is_file() and file.read_bytes().startswith(HEAD.encode())):
        reason = "exists and was not written by sidecar harden; remove it, or name another file"
        raise ConfigError("--rules", [f"{file}: {reason}"])


def _rows(file: Path) -> tuple[list[Row], list[str]]:
    """The attacks of a file, and its harmless texts."""
    rows = evaluation.read_rows(file, "attack")
    attacks = [row for row in rows if row.attack]
    if not attacks:
        raise ConfigError(f"{file} has no attack", ["every line is labelled as benign, as personal data, or is empty"])
    return attacks, [row.content for row in rows if row.benign]


def _offline(settings: Settings) -> Settings:
    """The same settings without the judge, and with time for each scan."""
    judge = settings.layers.llm_judge.model_copy(update={"url": None})
    layers = settings.layers.model_copy(update={"llm_judge": judge})
    scan = settings.scan.model_copy(update={"deadline": max(MIN_DEADLINE, settings.scan.deadline)})
    return settings.model_copy(update={"layers": layers, "scan": scan})


async def _search(
    settings: Settings, attacks: Sequence[Row], mutations: Sequence[Mutation], options: Choices
) -> tuple[list[Outcome], list[Result]]:
    """The attacks as they stand, and the search for each that is refused."""
    async with open_scanner(settings, selftests=False) as built:
        scanner = UnitScanner(ScanService(built.engine, settings).scan, settings)
        outcomes = await run(scanner, attacks, options.concurrency)
        search = Search(scanner.outcome, mutations, budget=options.budget, seed=options.seed, thorough=options.thorough)
        return outcomes, await _attack(
            search, [outcome for outcome in outcomes if outcome.blocked], options.concurrency
        )


async def _attack(search: Search, outcomes: Sequence[Outcome], concurrency: int) -> list[Result]:
    """Search for each of these, `concurrency` at a time; the results are in their order."""
    return await for_each("mutating", outcomes, search.attack, concurrency)


def _of_rules(proposals: Proposals) -> Figures:
    return {
        "rules": [{**proposal.values(), "texts": len(proposal.texts)} for proposal in proposals.rules],
        "outvoted": dict(proposals.outvoted.most_common()),
        "without_rule": len(proposals.open),
    }


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, "utf-8")
    except OSError as error:
        raise ConfigError("--rules", [f"{path}: {error.strerror}"]) from None


def _show(figures: Figures, options: Choices) -> None:
    if options.as_json:
        emit(figures)
        return
    show_figures(figures)
    show_rules(figures, options.rules_file)
