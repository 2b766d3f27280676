"""The command `sidecar check`: what a start would refuse, and what is probably not meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sidecar import policy
from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.evaluate import run
from sidecar.cli.greeting import settings_source
from sidecar.cli.setting_warnings import exposures, unknown_rules, warnings
from sidecar.config import Settings
from sidecar.detectors.rules import selftest
from sidecar.errors import ConfigError, PolicyError, ProblemsError, SidecarError
from sidecar.evaluation import UnitScanner, rule_coverage
from sidecar.runtime import preflight
from sidecar.runtime.builder import Scanner, open_scanner
from sidecar.runtime.profiles import open_profiles
from sidecar.scan.service import ScanService

Shape = dict[str, Any]


@click.command("check", short_help="Validate settings and policies; start nothing.")
@click.option(
    "--coverage",
    "covered",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Count every rule on a labelled file (.jsonl, .jsonl.gz) or on benign texts, one a line.",
)
@click.option("--connect", is_flag=True, help="Try all connections: store, upstreams, Redis, judge, alerts, telemetry.")
@JSON
@CONFIG
@async_command
async def check(covered: Path | None, connect: bool, as_json: bool, config_file: Path | None) -> int:
    """Validate the configuration and run the policies' self-tests; start nothing.

    A pattern that no match line covers is an error in a shipped rule, and a warning in one of your own.
    """
    try:
        found = await _examine(covered, connect=connect, config_file=config_file, quiet=as_json)
    except SidecarError as error:
        if not as_json:
            raise
        problems = list(error.problems) if isinstance(error, ProblemsError) else [str(error)]
        emit({"ok": False, "error": str(error).partition("\n")[0], "problems": problems})
        return 2
    if as_json:
        emit(found)
    else:
        output.show_check(found)
    return 0 if found["ok"] else 2


async def _examine(covered: Path | None, *, connect: bool, config_file: Path | None, quiet: bool) -> Shape:
    settings = load_settings(config_file)
    rows = rule_coverage.read(covered) if covered else []
    if problems := await preflight.problems(settings):
        raise ConfigError("the configuration would not start", problems)
    output.progress_line("testing the rules by their own examples and loading the layers ...", quiet=quiet)
    async with open_scanner(settings) as built, open_profiles(settings, built):
        unproved = await _unproved(built.source_policy) if settings.layers.rules.enabled else []
        coverage = await _coverage(built, settings, rows) if covered else None
        if connect:
            output.progress_line("trying the connections ...", quiet=quiet)
        tried = {name: problem async for name, problem in preflight.connections(settings, built)} if connect else None
        own = [rule for rule in built.source_policy.rules if rule.id not in built.source_policy.shipped]
        mentions = [problem for rule in own for problem in await selftest.unblocked_mentions(rule)]
        unknown = unknown_rules(settings, [rule.id for rule in built.policy.rules])
        return {
            "ok": not any((tried or {}).values()),
            "rules": len(built.policy.rules),
            "revision": built.policy.revision,
            "failure": dict(output.failure_lines(settings)),
            "warnings": warnings(settings) + exposures(settings) + unproved + mentions + unknown,
            "settings": settings_source(config_file or Path("config.yaml")),
            "connections": tried,
            "coverage": coverage,
        }


async def _coverage(built: Scanner, settings: Settings, rows: list[Any]) -> Shape:
    outcomes = await run(UnitScanner(ScanService(built.engine, settings).scan, settings), rows, 1)
    return rule_coverage.report(built.policy, outcomes)


async def _unproved(rules: policy.Policy, shipped: Callable[[], policy.Policy] = policy.load) -> list[str]:
    """Patterns of the operator's own rules that no `match` line covers. Raises `PolicyError` for shipped rules."""
    unproved = [(rule, problem) for rule in rules.rules for problem in await selftest.untested_patterns(rule)]
    ours = {_proved_part(rule) for rule in shipped().rules} if unproved else set()
    if problems := [problem for rule, problem in unproved if _proved_part(rule) in ours]:
        raise PolicyError("shipped policies have patterns that no match line covers", problems)
    return [problem for _, problem in unproved]


def _proved_part(rule: policy.Rule) -> tuple[object, ...]:
    """The parts of a rule that settings do not change."""
    return rule.id, rule.patterns, rule.match
