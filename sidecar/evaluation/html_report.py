"""The report of `sidecar eval --html`: its figures, plots and wrong units in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from sidecar import __version__
from sidecar.evaluation.outcomes import Outcome

TEMPLATE = Path(__file__).with_name("report.html")
BINS = 20
WIDTH, HEIGHT, MARGIN = 560.0, 200.0, 36.0
MAX_WRONG = 500
"""Wrong units that are listed."""
MAX_TEXT = 400
"""Characters of the text of a wrong unit."""


class Bar(NamedTuple):
    """A bar of a histogram, in the units of the drawing."""

    x: float
    y: float
    width: float
    height: float
    title: str


class Wrong(NamedTuple):
    """An attack that passed, or a benign unit that was refused."""

    id: str
    kind: str
    score: float
    cause: str
    text: str


def html(outcomes: Sequence[Outcome], figures: Mapping[str, Any], *, name: str, threshold: float) -> str:
    """The page. `name` is that of the file; `threshold` is marked in the plots."""
    scored = [outcome for outcome in outcomes if not outcome.unscanned]
    attacks = [outcome.verdict.risk_score for outcome in scored if outcome.row.attack]
    benign = [outcome.verdict.risk_score for outcome in scored if outcome.row.benign]
    found = wrong(outcomes)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        name=name,
        version=__version__,
        figures=figures,
        threshold=threshold,
        threshold_x=_x(threshold),
        bars={"attacks": bars(attacks), "benign": bars(benign)},
        curves={"attacks": curve(attacks), "benign": curve(benign)},
        wrong=found[:MAX_WRONG],
        wrong_total=len(found),
        size={"width": WIDTH, "height": HEIGHT, "margin": MARGIN, "floor": HEIGHT - MARGIN},
        ticks=[(tick / 10, _x(tick / 10)) for tick in range(0, 11, 2)],
    )


def wrong(outcomes: Sequence[Outcome]) -> list[Wrong]:
    """The wrong units: attacks that passed, the lowest score first, then benign ones, the highest first."""
    found = [outcome for outcome in outcomes if outcome.wrong]
    found.sort(key=lambda one: (one.row.benign, one.verdict.risk_score * (-1 if one.row.benign else 1)))
    return [
        Wrong(
            one.row.id,
            "false positive" if one.row.benign else "missed attack",
            one.verdict.risk_score,
            one.cause or "",
            one.row.content[:MAX_TEXT],
        )
        for one in found
    ]


def bars(scores: Sequence[float]) -> list[Bar]:
    """A histogram of scores: the share of units in each of `BINS` equal ranges."""
    counts = [0] * BINS
    for score in scores:
        counts[min(BINS - 1, int(score * BINS))] += 1
    room, width = HEIGHT - 2 * MARGIN, (WIDTH - 2 * MARGIN) / BINS
    drawn = []
    for index, count in enumerate(counts):
        height = room * count / max(1, len(scores))
        title = f"{index / BINS:.2f} to {(index + 1) / BINS:.2f}: {count}"
        drawn.append(Bar(_r(MARGIN + index * width), _r(HEIGHT - MARGIN - height), _r(width * 0.9), _r(height), title))
    return drawn


def curve(scores: Sequence[float]) -> str:
    """The share of units at or above each threshold, as the points of a line; empty without scores."""
    if not scores:
        return ""
    ordered, points = sorted(scores), []
    for step in range(101):
        above = sum(score >= step / 100 for score in ordered) / len(ordered)
        points.append(f"{_x(step / 100)},{_r(HEIGHT - MARGIN - above * (HEIGHT - 2 * MARGIN))}")
    return " ".join(points)


def _x(score: float) -> float:
    return _r(MARGIN + score * (WIDTH - 2 * MARGIN))


def _r(value: float) -> float:
    return round(value, 1)
