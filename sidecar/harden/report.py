"""The figures of a search as plain data; the command line renders them as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from operator import itemgetter
from typing import Any

from sidecar.evaluation import Outcome, Share
from sidecar.harden.disguises import CLASSES
from sidecar.harden.mutations import COMBINED
from sidecar.harden.search import Attempt, Result

Figures = dict[str, Any]
MAX_TEXT = 400
"""Characters of a mutated text in the figures."""
COMPARED = 1_000
"""Code points of two texts that are compared."""


def report(outcomes: Sequence[Outcome], results: Sequence[Result]) -> Figures:
    """All figures. `outcomes` are those of the attacks as they stand, `results` of those that were refused."""
    changeable = [result for result in results if result.target is not None]
    return {
        "attacks": len(outcomes),
        "could_not_scan": sum(outcome.unscanned for outcome in outcomes),
        "caught": Share(
            sum(outcome.blocked for outcome in outcomes), sum(not outcome.unscanned for outcome in outcomes)
        ).as_dict(),
        "not_changeable": len(results) - len(changeable),
        "mutations": sum(len(result.attempts) for result in results),
        "through": Share(sum(bool(result.passes) for result in changeable), len(changeable)).as_dict(),
        "classes": {kind: figures for kind in (*CLASSES, COMBINED) if (figures := _of_class(kind, changeable))},
        "passes": [entry(result, attempt) for result in changeable for attempt in result.passes],
    }


def _of_class(kind: str, results: Sequence[Result]) -> Figures | None:
    """The attacks on which the class was tried and those that it got through; None if it was not tried at all."""
    tries = [result for result in results if any(attempt.mutation.kind == kind for attempt in result.attempts)]
    passes = [(result, attempt) for result in tries for attempt in result.passes if attempt.mutation.kind == kind]
    if not tries:
        return None
    entries = [entry(result, attempt) for result, attempt in passes]
    names = Counter(figures["mutation"] for figures in entries)
    return {
        "through": Share(len({id(result) for result, _ in passes}), len(tries)).as_dict(),
        "mutations": sum(attempt.mutation.kind == kind for result in tries for attempt in result.attempts),
        "disguises": dict(names.most_common()),
        "smallest": min(entries, key=itemgetter("change", "id"), default=None),
    }


def entry(result: Result, attempt: Attempt) -> Figures:
    """One mutation that got through; `change` is the share of the characters that differ."""
    text = result.target.text if result.target else ""
    return {
        "id": result.plain.row.id,
        "class": attempt.mutation.kind,
        "mutation": attempt.mutation.name,
        "plain_score": result.plain.verdict.risk_score,
        "score": attempt.score,
        "change": change(text, attempt.text),
        "failure": attempt.failure,
        "outvoted": list(attempt.outvoted),
        "text": attempt.text[:MAX_TEXT],
    }


def change(text: str, mutated: str) -> float:
    """The share of two texts that is not common to both in the same order, 0 to 1."""
    matcher = SequenceMatcher(None, text[:COMPARED], mutated[:COMPARED], autojunk=False)
    return round(1 - matcher.ratio(), 4)
