"""Twin of sidecar/evaluation/html_report.py."""

from __future__ import annotations

import re

from sidecar.evaluation import Outcome, Row, report
from sidecar.evaluation.html_report import HEIGHT, MARGIN, bars, curve, html, wrong
from sidecar.types import Action, LayerName, Verdict


def outcome(name: str, score: float, *, attack: bool, text: str = "x", failure: str | None = None) -> Outcome:
    """A unit with this score, blocked from 0.6 on."""
    labels = frozenset({"attack"}) if attack else frozenset[str]()
    action = Action.BLOCK if score >= 0.6 else Action.ALLOW
    verdict = Verdict(score, action, (), 1, LayerName.RULES, failure=failure)
    return Outcome(Row(name, text, labels, not attack), verdict, 0.001)


OUTCOMES = [
    outcome("caught", 0.9, attack=True),
    outcome("missed", 0.2, attack=True, text="<script>alert(1)</script>"),
    outcome("fine", 0.1, attack=False),
    outcome("alarm", 0.8, attack=False),
    outcome("unscanned", 0.0, attack=True, failure="deadline"),
]


def test_wrong_units_are_missed_attacks_and_false_positives() -> None:
    """Not those that could not be scanned."""
    assert [(one.id, one.kind) for one in wrong(OUTCOMES)] == [
        ("missed", "missed attack"),
        ("alarm", "false positive"),
    ]


def test_the_page_holds_all_it_needs_and_shows_texts_as_texts() -> None:
    """No address, no script; figures, both plots, and the wrong units."""
    page = html(OUTCOMES, report(OUTCOMES), name="<b>mine</b>.csv", threshold=0.6)
    assert not re.search(r"<script|https?://|<b>mine|src=", page)
    assert page.count("<svg") == 2
    assert "&lt;script&gt;alert(1)" in page
    assert "50.0 %" in page
    assert "1 units could not be scanned" in page


def test_a_page_without_units_is_made_all_the_same() -> None:
    """Nothing divides by their number."""
    assert "0 units" in html([], report([]), name="empty", threshold=0.6)


def test_a_histogram_holds_every_score_and_a_curve_falls() -> None:
    """The last range includes 1; the curve is the share at or above each threshold."""
    heights = [bar.height for bar in bars([0.0, 0.5, 1.0, 1.0])]
    assert [number for number, height in enumerate(heights) if height] == [0, 10, 19]
    ys = [float(point.split(",")[1]) for point in curve([0.0, 0.5, 1.0, 1.0]).split()]
    assert (ys[0], ys == sorted(ys)) == (MARGIN, True)
    assert ys[-1] == (HEIGHT - MARGIN + MARGIN) / 2
    assert curve([]) == ""
