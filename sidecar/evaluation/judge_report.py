"""Evaluates a judge: its results beside those of the other layers, on the same rows inside its band.

The report compares attack and benign rows about which the judge was asked. `others` is the result of the layers before
it, `judge` its own where it answered, `together` the verdicts. The significance of a difference in errors is given by
McNemar's exact test (1947): of the rows on which both disagree, how likely is a split as uneven as this one if the
judge were no better and no worse?
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from sidecar.config import JudgeLayer
from sidecar.evaluation import Outcome, Row, Share, auc, quantiles
from sidecar.observability import metrics
from sidecar.scan.aggregation import round_score
from sidecar.types import LayerName, LayerReport
from sidecar.util.units import Rate

CHANCE = 0.05
_ENDLESS = Rate(10**12, 60.0)
_CONTROLLED = "swayed"
"""The failure cause after which the control question was asked, too."""


def unmetered(judge: JudgeLayer) -> JudgeLayer:
    """The judge without rate limits, for measuring: `--limit` bounds the calls, and the judge decides."""
    free = {"calls": _ENDLESS, "tokens": _ENDLESS, "queue": max(judge.queue, 64), "mode": "decide"}
    return judge.model_copy(update=free)


def tokens_spent() -> int:
    """Judge tokens this process has used so far, calls without an answer included."""
    return int(metrics.REGISTRY.get_sample_value("sidecar_judge_tokens_total") or 0)


def shuffled(rows: Sequence[Row]) -> list[Row]:
    """The rows in a fixed pseudo-random order: files are sorted by source."""
    return sorted(rows, key=lambda row: hashlib.blake2b(row.id.encode("utf-8", "surrogatepass")).digest())


def was_asked(outcome: Outcome) -> bool:
    """Whether the judge was asked about this row, with an answer or without."""
    return _by_judge(outcome) is not None


@dataclass(frozen=True, slots=True)
class _Case:
    """One row inside the band: scores of the other layers, of the judge if it answered, and of the verdict."""

    attack: bool
    others: float
    judge: float | None
    together: float
    blocked_before: bool
    blocked: bool

    @property
    def wrong_before(self) -> bool:
        return self.blocked_before is not self.attack

    @property
    def wrong(self) -> bool:
        return self.blocked is not self.attack


def report(outcomes: Sequence[Outcome], judge: JudgeLayer, threshold: float, tokens: int) -> dict[str, Any]:
    """Plain data; `tokens` is the cost of all calls, those without an answer included."""
    reports = [judge_report for outcome in outcomes if (judge_report := _by_judge(outcome)) is not None]
    cases = [case for outcome in outcomes if (case := _case(outcome, threshold)) is not None]
    causes = Counter(judge_report.failure for judge_report in reports if judge_report.failure)
    calls = sum(
        1 + int(judge_report.detail.get("controlled", judge_report.failure == _CONTROLLED)) for judge_report in reports
    )
    errors = _errors(cases)
    return {
        "band": list(judge.between),
        "rows": len(outcomes),
        "asked": len(reports),
        "no_answer": dict(causes.most_common()),
        "compared": len(cases),
        "others": _figures(cases, [(case.others, case.blocked_before) for case in cases]),
        "judge": _alone([case for case in cases if case.judge is not None], threshold),
        "together": _figures(cases, [(case.together, case.blocked) for case in cases]),
        "errors": errors,
        "conclusion": _conclusion(errors, len(cases)),
        "calls": calls,
        "tokens": tokens,
        "per_1000": _per_1000(len(outcomes), asked=len(reports), calls=calls, tokens=tokens),
        "latency_ms": quantiles([judge_report.elapsed for judge_report in reports]),
    }


def _by_judge(outcome: Outcome) -> LayerReport | None:
    return next(
        (layer_report for layer_report in outcome.verdict.reports if layer_report.layer is LayerName.LLM_JUDGE), None
    )


def _case(outcome: Outcome, threshold: float) -> _Case | None:
    """None where nothing can be compared: PII only, not asked, or no other layer answered."""
    report, row = _by_judge(outcome), outcome.row
    scores = [r.score for r in outcome.verdict.reports if r is not report and r.score is not None]
    if report is None or not scores or not (row.attack or row.benign):
        return None
    others = round_score(max(scores))
    judge = None if report.score is None else round_score(report.score)
    return _Case(row.attack, others, judge, outcome.verdict.risk_score, others >= threshold, outcome.blocked)


def _alone(cases: Sequence[_Case], threshold: float) -> dict[str, Any]:
    return _figures(cases, [(case.judge or 0.0, (case.judge or 0.0) >= threshold) for case in cases])


def _figures(cases: Sequence[_Case], decisions: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """The share of attack and of benign rows that is blocked, and the AUC of the score."""
    pairs = list(zip(cases, decisions, strict=True))

    def share(*, attack: bool) -> Share:
        chosen = [blocked for case, (_, blocked) in pairs if case.attack is attack]
        return Share(sum(chosen), len(chosen))

    return {
        "attacks": share(attack=True).as_dict(),
        "benign": share(attack=False).as_dict(),
        "auc": auc((score, case.attack) for case, (score, _) in pairs),
    }


def _errors(cases: Iterable[_Case]) -> dict[str, Any]:
    compared = list(cases)
    corrections = sum(case.wrong_before and not case.wrong for case in compared)
    new_errors = sum(case.wrong and not case.wrong_before for case in compared)
    return {
        "without": sum(case.wrong_before for case in compared),
        "with": sum(case.wrong for case in compared),
        "mended": corrections,
        "broken": new_errors,
        "chance": round(_chance(corrections, new_errors), 4),
    }


def _chance(corrections: int, new_errors: int) -> float:
    """Two-sided exact test of McNemar."""
    n, fewer = corrections + new_errors, min(corrections, new_errors)
    return min(1.0, 2 * sum(comb(n, k) for k in range(fewer + 1)) / float(2**n))


def _conclusion(errors: dict[str, Any], rows: int) -> str:
    if not rows:
        return "nothing"
    if errors["with"] == errors["without"]:
        return "same"
    return "worse" if errors["with"] > errors["without"] else "better"


def _per_1000(rows: int, **figures: int) -> dict[str, float]:
    return {name: round(1000 * value / rows, 1) for name, value in figures.items()} if rows else {}


def sentence(figures: Mapping[str, Any]) -> str:
    """The conclusion as a sentence."""
    errors, rows = figures["errors"], figures["compared"]
    conclusion = {
        "nothing": "No attack and no benign row of this file lies inside the judge's band: nothing can be said.",
        "same": "The judge is of no use here: as many errors with it as without.",
        "worse": "THE JUDGE MAKES THINGS WORSE: leave it off, or choose another model or band.",
        "better": "The judge makes things better.",
    }[figures["conclusion"]]
    if figures["conclusion"] == "nothing":
        return conclusion
    counts = f"{errors['without']} errors on {rows} rows without it, {errors['with']} with it"
    doubt = f"; so few rows that it may be chance (p = {errors['chance']:.2f})" if errors["chance"] > CHANCE else ""
    return f"{conclusion} {counts} ({errors['mended']} mended, {errors['broken']} new){doubt}."
