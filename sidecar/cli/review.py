"""`sidecar review`: asks the judge again about borderline decisions, and shows where it disagrees.

For policy authors: a disagreement is a rule to add, a rule to fix, or a judge not to trust. Reviewed are decisions of
the scan log whose score before the judge lay in its band and whose text was stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from sidecar import policy
from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, Duration, async_command, emit, load_settings
from sidecar.cli.terminal import for_each, plain
from sidecar.config import JudgeLayer, Settings
from sidecar.config.signing import read_signer
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.errors import ConfigError, LayerError
from sidecar.evaluation import judge_report
from sidecar.policy.switches import apply_switches
from sidecar.scan.aggregation import round_score
from sidecar.storage import DecisionRow, Filter, Store
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment

PAGE = 500
MAX_TEXT = 200
NO_TEXT = (
    "{count} borderline decisions, and the text of none of them was stored: there is nothing to review. "
    "Set log.prompts to redacted or full if you may store texts, and review later decisions."
)
NOTHING = "No decision in the scan log lies in the judge's band {low:.2f} to {high:.2f}."
REDACTED = "Texts were stored redacted: the judge did not see the removed values, so do not rely on its acquittals."


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """A logged decision, its score before the judge, and the judge's result now (or why there is none)."""

    decision: DecisionRow
    before: float
    report: LayerReport | None
    cause: str | None
    threshold: float

    @property
    def action(self) -> Action | None:
        """The action that the judge recommends."""
        if self.report is None or self.report.score is None:
            return None
        return Action.BLOCK if round_score(self.report.score) >= self.threshold else Action.ALLOW

    @property
    def disagrees(self) -> bool:
        """Whether it differs from the logged recommendation."""
        return self.action is not None and self.action != self.decision.recommended

    def as_dict(self, *, text: bool) -> dict[str, Any]:
        """For JSON and the table; the text only if requested."""
        report = self.report
        labels = sorted({str(f.label) for f in report.findings if f.decides}) if report else []
        return {
            "decision": self.decision.id,
            "at": self.decision.at.isoformat(),
            "score": self.before,
            "recommended": self.decision.recommended,
            "threats": self.decision.threats.split(),
            "judge_score": None if report is None or report.score is None else round_score(report.score),
            "judge_recommends": self.action,
            "judge_threats": labels,
            "reasoning": report.reasoning if report else None,
            "no_opinion": self.cause,
            **({"text": self.decision.text} if text else {}),
        }


@click.command(short_help="Ask the judge again about borderline decisions.")
@click.option("--since", type=Duration(), default="7d", show_default=True, help="How far back in the scan log.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most decisions to review.")
@click.option("--text", is_flag=True, help="Show the texts, too. They are untrusted input.")
@JSON
@CONFIG
@async_command
async def review(since: timedelta, limit: int, text: bool, as_json: bool, config_file: Path | None) -> int:
    """Ask the judge again about logged borderline decisions and list where it disagrees."""
    settings = load_settings(config_file)
    if settings.layers.llm_judge.url is None:
        raise ConfigError("review", ["there is no judge: set layers.llm_judge.url"])
    decisions, without = await _borderline(settings, datetime.now(UTC) - since, limit)
    results = await _judge(settings, decisions)
    if as_json:
        emit(_report(results, without, text=text))
    else:
        _show(results, without, settings, text=text)
    return 0


async def _borderline(settings: Settings, since: datetime, limit: int) -> tuple[list[DecisionRow], int]:
    """The newest decisions in the band with a text, each text once; and how many had no text."""
    low, high = settings.layers.llm_judge.between
    decisions: dict[str, DecisionRow] = {}
    without = 0
    store = await Store.open(settings.store.url, signer=read_signer(settings.audit))
    try:
        async with aclosing(_log(store, since)) as entries:
            async for decision in entries:
                score = score_before(decision)
                if decision.failure or score is None or not low <= score < high:
                    continue
                without += not decision.text
                if decision.text:
                    decisions.setdefault(decision.digest or decision.id, decision)
                if len(decisions) >= limit:
                    break
    finally:
        await store.close()
    return list(decisions.values()), without


async def _log(store: Store, since: datetime) -> AsyncGenerator[DecisionRow, None]:
    """Decisions from the newest back to that time, page by page."""
    last: DecisionRow | None = None
    while page := await store.decisions.query(Filter(since=since, before=last), PAGE):
        for decision in page:
            yield decision
        last = page[-1]


def score_before(decision: DecisionRow) -> float | None:
    """The highest score of the layers before the judge; None if none of them had an answer."""
    scores = [
        float(layer["score"])
        for layer in decision.layers
        if layer["layer"] != LayerName.LLM_JUDGE and layer["score"] is not None
    ]
    return max(scores, default=None)


async def _judge(settings: Settings, decisions: Sequence[DecisionRow]) -> list[JudgeResult]:
    """One opinion for each, a few at a time, in the order given."""
    judge = judge_report.unmetered(settings.layers.llm_judge)
    rules = apply_switches(await asyncio.to_thread(policy.load, settings.policies), settings.rules).rules
    layer = LlmJudgeLayer(judge, rules, threshold=settings.scan.threshold)
    try:
        return await for_each("asking the judge", decisions, lambda one: _ask(layer, one, settings), _workers(judge))
    finally:
        await layer.close()


def _workers(judge: JudgeLayer) -> int:
    return min(judge.concurrency, 16)


async def _ask(layer: LlmJudgeLayer, decision: DecisionRow, settings: Settings) -> JudgeResult:
    before, threshold = score_before(decision) or 0.0, settings.scan.threshold
    try:
        report = await layer.scan(ScanRequest((Segment(decision.text or ""),)), _findings(decision))
    except LayerError as error:
        return JudgeResult(decision, before, None, error.cause, threshold)
    return JudgeResult(decision, before, report, None, threshold)


def _findings(decision: DecisionRow) -> list[Finding]:
    """The other layers' findings, with spans where the text is the only segment they scanned."""
    exact = decision.segments == 1 and decision.length == len(decision.text or "")
    return [
        Finding(
            rule=entry["rule"],
            label=Label(entry["label"]),
            score=entry["score"] or 0.0,
            layer=LayerName(entry["layer"]),
            path="prompt",
            start=entry["start"] if exact else None,
            end=entry["end"] if exact else None,
            decides=entry["decides"],
            hint=entry.get("hint", False),
        )
        for entry in decision.findings
        if entry["layer"] != LayerName.LLM_JUDGE
    ]


def _report(results: Sequence[JudgeResult], without: int, *, text: bool) -> dict[str, Any]:
    return {
        "reviewed": len(results),
        "without_text": without,
        "no_opinion": dict(Counter(result.cause for result in results if result.cause).most_common()),
        "agreed": sum(result.action is not None and not result.disagrees for result in results),
        "disagreements": [result.as_dict(text=text) for result in results if result.disagrees],
    }


def _show(results: Sequence[JudgeResult], without: int, settings: Settings, *, text: bool) -> None:
    low, high = settings.layers.llm_judge.between
    if not results:
        message = NO_TEXT.format(count=without) if without else NOTHING.format(low=low, high=high)
        output.out.print(message, markup=False)
        return
    report = _report(results, without, text=text)
    if report["disagreements"]:
        output.out.print(_table(report["disagreements"], text=text))
    unanswered = ", ".join(f"{cause} {count}" for cause, count in report["no_opinion"].items()) or "none"
    output.out.print(
        f"{report['reviewed']} reviewed: {len(report['disagreements'])} disagreements, {report['agreed']} agreed, "
        f"without an opinion: {unanswered}. {without} more had no stored text.",
        markup=False,
    )
    if settings.log.prompts == "redacted":
        output.out.print(REDACTED, markup=False)


def _table(rows: Sequence[dict[str, Any]], *, text: bool) -> Table:
    columns = ["decision", "score", "then", "judge", "now", "why", *(["text"] if text else [])]
    table = Table(*columns, title="the judge disagrees")
    for row in rows:
        colour = "red" if row["judge_recommends"] == Action.BLOCK else "green"
        now = f"[{colour}]{row['judge_recommends']}[/]"
        scores = f"{row['score']:.2f}", row["recommended"], f"{row['judge_score']:.2f}"
        shown = [plain(row["text"], MAX_TEXT)] if text else []
        table.add_row(row["decision"], *scores, now, plain(row["reasoning"] or "", MAX_TEXT), *shown)
    return table
