"""`sidecar review`: asks the judge again about decisions that were borderline, and shows where it disagrees.

For people who write policies: a disagreement is a rule to add, a rule to mend, or a judge not to trust. Looked
at are decisions of the scan log whose score before any judge lay in the judge's band and whose text was kept.
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
from rich.markup import escape
from rich.table import Table

from sidecar import policy
from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, Duration, emit, entry, load_settings
from sidecar.config import JudgeLayer, Settings
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.errors import ConfigError, LayerError
from sidecar.evaluation import judge_report
from sidecar.policy.switches import switched
from sidecar.scan.aggregation import rounded
from sidecar.storage import DecisionRow, Filter, Store
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment

PAGE = 500
SHOWN = 200
NO_TEXT = (
    "{count} borderline decisions, and the text of none of them was kept: there is nothing to show a judge. "
    "Set log.prompts to redacted or full if you may keep texts, and review what is decided from then on."
)
NOTHING = "No decision in the scan log lies in the judge's band {low:.2f} to {high:.2f}."
REDACTED = "Texts were kept redacted: the judge did not see what had been found in them, so take acquittals with care."


@dataclass(frozen=True, slots=True)
class Opinion:
    """A logged decision, its score before any judge, and what the judge says now (or why it says nothing)."""

    logged: DecisionRow
    before: float
    report: LayerReport | None
    cause: str | None
    threshold: float

    @property
    def action(self) -> Action | None:
        """What the judge recommends."""
        if self.report is None or self.report.score is None:
            return None
        return Action.BLOCK if rounded(self.report.score) >= self.threshold else Action.ALLOW

    @property
    def disagrees(self) -> bool:
        """Whether it recommends something else than the log."""
        return self.action is not None and self.action != self.logged.recommended

    def as_dict(self, *, text: bool) -> dict[str, Any]:
        """For JSON and the table; the text only if asked for."""
        found = self.report
        labels = sorted({str(f.label) for f in found.findings if f.decides}) if found else []
        return {
            "decision": self.logged.id,
            "at": self.logged.at.isoformat(),
            "score": self.before,
            "recommended": self.logged.recommended,
            "threats": self.logged.threats.split(),
            "judge_score": None if found is None or found.score is None else rounded(found.score),
            "judge_recommends": self.action,
            "judge_threats": labels,
            "reasoning": found.reasoning if found else None,
            "no_opinion": self.cause,
            **({"text": self.logged.text} if text else {}),
        }


@click.command()
@click.option("--since", type=Duration(), default="7d", show_default=True, help="How far back in the scan log.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Ask about so many at most.")
@click.option("--text", is_flag=True, help="Show the texts, too. They are what strangers wrote.")
@JSON
@CONFIG
@entry
async def review(since: timedelta, limit: int, text: bool, as_json: bool, config_file: Path | None) -> int:
    """Ask the judge again about logged borderline decisions and list where it disagrees."""
    settings = load_settings(config_file)
    if settings.layers.llm_judge.url is None:
        raise ConfigError("review", ["there is no judge: set layers.llm_judge.url"])
    kept, without = await _borderline(settings, datetime.now(UTC) - since, limit)
    found = await _judge(settings, kept)
    if as_json:
        emit(_report(found, without, text=text))
    else:
        _show(found, without, settings, text=text)
    return 0


async def _borderline(settings: Settings, since: datetime, limit: int) -> tuple[list[DecisionRow], int]:
    """The newest decisions in the band with a text, each text once; and how many more had none."""
    low, high = settings.layers.llm_judge.between
    kept: dict[str, DecisionRow] = {}
    without = 0
    store = await Store.open(settings.store.url)
    try:
        async with aclosing(_log(store, since)) as entries:
            async for logged in entries:
                score = score_before(logged)
                if logged.failure or score is None or not low <= score < high:
                    continue
                without += not logged.text
                if logged.text:
                    kept.setdefault(logged.digest or logged.id, logged)
                if len(kept) >= limit:
                    break
    finally:
        await store.close()
    return list(kept.values()), without


async def _log(store: Store, since: datetime) -> AsyncGenerator[DecisionRow, None]:
    """From the newest decision back to that moment, page by page."""
    last: DecisionRow | None = None
    while page := await store.decisions.query(Filter(since=since, before=last), PAGE):
        for logged in page:
            yield logged
        last = page[-1]


def score_before(logged: DecisionRow) -> float | None:
    """The highest score of the layers that ran before a judge; None if none of them had an answer."""
    scores = [
        float(layer["score"])
        for layer in logged.layers
        if layer["layer"] != LayerName.LLM_JUDGE and layer["score"] is not None
    ]
    return max(scores, default=None)


async def _judge(settings: Settings, kept: Sequence[DecisionRow]) -> list[Opinion]:
    """One opinion for each, a few at a time, in the order given."""
    judge = judge_report.unmetered(settings.layers.llm_judge)
    rules = switched(await asyncio.to_thread(policy.load, settings.policies), settings.rules).rules
    layer = LlmJudgeLayer(judge, rules, threshold=settings.scan.threshold)
    waiting = iter(kept)
    found: dict[str, Opinion] = {}
    try:
        with output.progress() as bar:
            task = bar.add_task("asking the judge", total=len(kept))

            async def work() -> None:
                for logged in waiting:
                    found[logged.id] = await _ask(layer, logged, settings)
                    bar.advance(task)

            await asyncio.gather(*(work() for _ in range(_workers(judge))))
    finally:
        await layer.close()
    return [found[logged.id] for logged in kept]


def _workers(judge: JudgeLayer) -> int:
    return min(judge.concurrency, 16)


async def _ask(layer: LlmJudgeLayer, logged: DecisionRow, settings: Settings) -> Opinion:
    before, threshold = score_before(logged) or 0.0, settings.scan.threshold
    try:
        report = await layer.scan(ScanRequest((Segment(logged.text or ""),)), _findings(logged))
    except LayerError as error:
        return Opinion(logged, before, None, error.cause, threshold)
    return Opinion(logged, before, report, None, threshold)


def _findings(logged: DecisionRow) -> list[Finding]:
    """What the other layers found, at its place where the text is the one segment that they read."""
    exact = logged.segments == 1 and logged.length == len(logged.text or "")
    return [
        Finding(
            rule=one["rule"],
            label=Label(one["label"]),
            score=one["score"] or 0.0,
            layer=LayerName(one["layer"]),
            path="prompt",
            start=one["start"] if exact else None,
            end=one["end"] if exact else None,
            decides=one["decides"],
            hint=one.get("hint", False),
        )
        for one in logged.findings
        if one["layer"] != LayerName.LLM_JUDGE
    ]


def _report(found: Sequence[Opinion], without: int, *, text: bool) -> dict[str, Any]:
    return {
        "reviewed": len(found),
        "without_text": without,
        "no_opinion": dict(Counter(one.cause for one in found if one.cause).most_common()),
        "agreed": sum(one.action is not None and not one.disagrees for one in found),
        "disagreements": [one.as_dict(text=text) for one in found if one.disagrees],
    }


def _show(found: Sequence[Opinion], without: int, settings: Settings, *, text: bool) -> None:
    low, high = settings.layers.llm_judge.between
    if not found:
        said = NO_TEXT.format(count=without) if without else NOTHING.format(low=low, high=high)
        output.out.print(said, markup=False)
        return
    report = _report(found, without, text=text)
    if report["disagreements"]:
        output.out.print(_table(report["disagreements"], text=text))
    said = ", ".join(f"{cause} {count}" for cause, count in report["no_opinion"].items()) or "none"
    output.out.print(
        f"{report['reviewed']} reviewed: {len(report['disagreements'])} disagreements, {report['agreed']} agreed, "
        f"without an opinion: {said}. Of {without} more no text was kept.",
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
        shown = [_plain(row["text"])] if text else []
        table.add_row(row["decision"], *scores, now, _plain(row["reasoning"] or ""), *shown)
    return table


def _plain(text: str) -> str:
    """Safe on a terminal, and not too long."""
    kept = "".join(char if char.isprintable() else " " for char in text[:SHOWN])
    return escape(kept + ("…" if len(text) > SHOWN else ""))
