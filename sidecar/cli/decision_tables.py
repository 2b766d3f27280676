"""One decision of the scan log, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from sidecar.cli.output import out
from sidecar.cli.terminal import plain
from sidecar.storage import DecisionRow


def show_decision(row: DecisionRow, *, text: bool) -> None:
    """Its circumstances, findings and layers; with `text` what the log holds of the prompt."""
    colour = "green" if row.action == "allow" else "red" if row.action == "block" else "yellow"
    out.print(f"[bold {colour}]{plain(row.action)}[/]  risk {row.risk_score:.4f}  {plain(row.threats) or 'no threats'}")
    for name, value in _facts(row):
        out.print(f"{name:<13}{plain(value)}")
    if row.findings:
        out.print(_findings(row))
    out.print(_layers(row))
    if text and row.reasoning:
        out.print(f"judge: {plain(row.reasoning)}")
    if text:
        out.print(plain(row.text) if row.text else "The text was not stored (log.prompts).")


def _facts(row: DecisionRow) -> Iterator[tuple[str, str]]:
    yield "time", row.at.isoformat(timespec="seconds")
    if row.recommended != row.action:
        yield "recommended", row.recommended
    yield "decided by", f"{row.decided_by} in {row.latency_ms} ms"
    yield "entry point", f"{row.door} {row.route}, answered {row.status}"
    optional = {
        "not scanned": row.failure,
        "unscanned": row.unscanned,
        "setting": row.setting,
        "replaced": row.replaced and f"{row.replaced} values of personal data, before the scan",
        "key": row.key_id,
        "client": row.client,
        "model": row.model,
    }
    yield from ((name, value) for name, value in optional.items() if value)
    yield "text", f"{row.length} characters in {row.segments} segments, digest {row.digest}"
    yield "policy", row.revision


def _findings(row: DecisionRow) -> Table:
    table = Table("rule", "label", "score", "layer", "effect", "where", box=None, padding=(0, 2, 0, 0))
    for finding in row.findings:
        score = "-" if finding["score"] is None else f"{finding['score']:.2f}"
        span = "" if finding["start"] is None else f" {finding['start']}-{finding['end']}"
        names = (plain(str(finding[name])) for name in ("rule", "label"))
        table.add_row(*names, score, finding["layer"], _effect(finding), plain(finding["path"] + span))
    return table


def _effect(finding: Mapping[str, Any]) -> str:
    if finding["decides"]:
        return "decides"
    return "excepted" if finding.get("excepted") else "hint" if finding.get("hint") else "none"


def _layers(row: DecisionRow) -> Table:
    table = Table("layer", "score", "ms", "failure", box=None, padding=(0, 2, 0, 0))
    for layer in row.layers:
        score = "-" if layer["score"] is None else f"{layer['score']:.4f}"
        table.add_row(layer["layer"], score, f"{layer['elapsed_ms'] or 0:.1f}", layer["failure"] or "")
    return table
