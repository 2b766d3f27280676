"""Where `fallback` findings decide: texts that leave the model no context. The other cases: `test_engine`."""

from __future__ import annotations

import pytest

from sidecar.scan.fallbacks import decide_fallbacks
from sidecar.types import Finding, Label, LayerName, LayerReport, Segment, SegmentReport


def fallback(start: int, end: int, *, hint: bool = True) -> Finding:
    """A finding of a `fallback` rule; without `hint` its context made it harmless."""
    place = {"start": start, "end": end}
    return Finding("T-1", Label.JAILBREAK, 0.95, LayerName.RULES, "p", **place, decides=False, hint=hint, fallback=True)


@pytest.mark.parametrize(
    ("findings", "decides"),
    [
        ([fallback(0, 10)], True),
        ([fallback(0, 6), fallback(4, 8)], True),
        ([fallback(0, 6), fallback(1, 5)], False),
        ([fallback(0, 6)], False),
        ([fallback(0, 10, hint=False)], False),
    ],
)
def test_findings_that_fill_a_text_decide(findings: list[Finding], decides: bool) -> None:
    """Together from 70 % of the text, an overlap counted once; what its context made harmless does not count."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, tuple(findings))])
    decided = decide_fallbacks(report, [True], (Segment("x" * 10),))
    assert [finding.decides for finding in decided.findings] == [decides] * len(findings)
    assert decided.score == (0.95 if decides else 0.0)


def test_another_text_is_not_filled() -> None:
    """Each text is measured by itself."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (fallback(0, 10),)), SegmentReport(0.0)])
    decided = decide_fallbacks(report, [True, True], (Segment("x" * 100), Segment("y" * 10)))
    assert not decided.findings[0].decides
