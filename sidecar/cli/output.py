"""Output for people: results, tables and the first greeting, rendered with rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sidecar.types import Action, Finding, Verdict

if TYPE_CHECKING:
    from sidecar.auth.api_keys import ApiKey
    from sidecar.config import Settings
    from sidecar.policy import Policy
    from sidecar.policy.inheritance import Term

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def show_verdict(verdict: Verdict, policy: Policy, *, explain: bool) -> None:
    """The verdict, its reasons, and the deciding layer."""
    if verdict.failure:
        err.print(f"[yellow]could not scan[/]: {verdict.failure}")
        return
    colour = "red" if verdict.action is Action.BLOCK else "green"
    threats = ", ".join(verdict.threats) or "no threats"
    out.print(f"[bold {colour}]{verdict.action}[/]  risk {verdict.risk_score:.4f}  {threats}")
    out.print(f"decided by {verdict.layer_used} in {verdict.latency_ms} ms, policy {verdict.revision}", style="dim")
    if verdict.reasoning:
        out.print(escape(verdict.reasoning))
    titles = {rule.id: rule.title for rule in policy.rules}
    for finding in _strongest(verdict.findings, all_of_them=explain):
        out.print(
            f"  {finding.score:.2f}  {finding.rule}  {escape(titles.get(finding.rule, finding.label))}{_place(finding)}"
        )
        if explain and finding.evidence:
            out.print(f"        {escape(finding.evidence)}", style="dim")
    if explain:
        _show_layers(verdict)


def _strongest(findings: Iterable[Finding], *, all_of_them: bool) -> list[Finding]:
    ranked = sorted(findings, key=lambda finding: -finding.score)
    return ranked if all_of_them else ranked[:3]


def _place(finding: Finding) -> str:
    if finding.start is None:
        return ""
    view = "" if finding.view == "raw" else f", seen as {finding.view}"
    return f"  [dim]({finding.path} {finding.start}-{finding.end}{view})[/]"


def _show_layers(verdict: Verdict) -> None:
    table = Table("layer", "score", "ms", "failure", "detail", box=None, padding=(0, 2))
    for report in verdict.reports:
        detail = " ".join(f"{name}={value}" for name, value in report.detail.items())
        score = "-" if report.score is None else f"{report.score:.4f}"
        table.add_row(report.layer, score, f"{report.elapsed * 1000:.1f}", report.failure or "", detail)
    out.print(table)


def show_keys(keys: Iterable[ApiKey], now: datetime) -> None:
    """All keys with their state; never a value."""
    table, keys = Table(box=None, padding=(0, 1, 0, 0)), list(keys)
    has_teams = any(key.team for key in keys)
    for column in ("id", "name", "state", "environment", *["team"][:has_teams], "created", "expires", "last used"):
        table.add_column(column, no_wrap=column != "name", overflow="fold")
    for key in keys:
        state = str(key.state(now))
        colour = {"valid": "green", "revoked": "red"}.get(state, "yellow")
        dates = (_day(key.created_at), _end(key.expires_at, now), _day(key.last_used_at))
        team = [escape(key.team or "-")] if has_teams else []
        table.add_row(key.id, escape(key.name), f"[{colour}]{state}[/]", key.environment, *team, *dates)
    out.print(table)


def show_key(key: ApiKey, state: str, terms: Iterable[Term]) -> None:
    """One key: the terms in force, each with its origin; none if its profile is not configured."""
    out.print(f"{key.id}  {key.name} ({key.environment}), {state}, profile {key.profile or 'none'}", markup=False)
    table = Table("term", "value", "from", box=None, padding=(0, 2, 0, 0))
    for term in terms:
        table.add_row(escape(term.name), escape(term.value), escape(term.origin))
    if table.row_count:
        out.print(table)
    else:
        out.print("its profile is not configured: its requests are refused")


def _day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d") if moment else "-"


def _end(moment: datetime | None, now: datetime) -> str:
    """The day, and the time (UTC) where it is near: a rotated key may have minutes left."""
    near = moment is not None and abs(moment - now) < timedelta(days=2)
    return moment.strftime("%Y-%m-%d %H:%M") if moment and near else _day(moment)


def progress_line(text: str, *, quiet: bool) -> None:
    """What takes a while now, on standard error."""
    if not quiet:
        err.print(text, style="dim", markup=False)


def show_check(found: Mapping[str, Any]) -> None:
    """The result of `check`: rules, behaviour on failure, connections, warnings and coverage."""
    out.print(f"[green]ok[/]  {found['rules']} rules passed their self-tests, policy {found['revision']}")
    out.print(f"settings: {found['settings']}", style="dim", markup=False)
    table = Table("situation", "policy", box=None, padding=(0, 2))
    for name, value in found["failure"].items():
        table.add_row(name, f"[{'green' if value in {'block', 'deny'} else 'yellow'}]{value}[/]")
    out.print(table)
    for name, problem in (found["connections"] or {}).items():
        out.print(f"[{'red' if problem else 'green'}]{'failed' if problem else 'reached'}[/]  {escape(name)}", end="")
        out.print(f": {escape(problem)}" if problem else "")
    for warning in found["warnings"]:
        out.print(f"[yellow]warning[/]  {escape(warning)}")
    if found["coverage"]:
        show_coverage(found["coverage"])


def failure_lines(settings: Settings) -> list[tuple[str, str]]:
    """The failure policy, one line per situation."""
    lines = []
    for name, value in settings.failure.model_dump().items():
        if isinstance(value, Mapping):
            lines += [(f"failure.{name}.{kind}", str(choice)) for kind, choice in value.items()]
        else:
            lines.append((f"failure.{name}", str(value)))
    return lines


def show_coverage(coverage: Mapping[str, Any]) -> None:
    """Rules by their false positives, then rules that never fired and overlapping rules."""
    table = Table("rule", "rows", "attacks", "no other rule", "benign", "", title=f"{coverage['rows']} rows")
    for rule in sorted(coverage["fired"], key=lambda rule: (-rule["benign"], -rule["attacks"])):
        counts = (str(rule[name]) for name in ("rows", "attacks", "alone", "benign"))
        table.add_row(rule["rule"], *counts, escape(rule["title"]))
    out.print(table)
    for pair in coverage["overlaps"]:
        out.print(
            f"{pair['rule']}: {pair['both']} of its {pair['rows']} rows are met by {pair['within']}", markup=False
        )
    out.print(
        f"never fired ({len(coverage['never'])} of {coverage['rules']}): {', '.join(coverage['never']) or 'none'}"
    )
