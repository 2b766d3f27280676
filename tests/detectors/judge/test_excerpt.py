"""Windows and escapes: what the judge sees, and that text cannot imitate our structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.detectors.judge.excerpt import MARGIN, MAX_EXPANSION, escape, excerpt
from sidecar.types import Finding, Label, LayerName, ScanRequest, Segment, Source
from tests.growth import assert_constant


def suspicion_at(
    start: int | None, end: int | None, *, path: str = "prompt", label: Label = Label.JAILBREAK
) -> Finding:
    """A finding of an earlier layer."""
    return Finding("X", label, 0.5, LayerName.RULES, path, start, end)


def request(*texts: str) -> ScanRequest:
    """Segments with paths 0, 1, ... ; a single one is `prompt`."""
    if len(texts) == 1:
        return ScanRequest((Segment(texts[0]),))
    return ScanRequest(tuple(Segment(text, Source.USER, str(n)) for n, text in enumerate(texts)))


@given(st.text())
def test_an_escaped_text_is_one_visible_line_without_structure(text: str) -> None:
    """No line break, bracket, brace, back-tick or invisible character survives, whatever the text."""
    escaped = escape(text)
    assert escaped.isprintable()
    assert not set("{}[]<>`") & set(escaped)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain text, 'quoted' \"twice\"", "plain text, 'quoted' \"twice\""),
        ('{"q1": 0}', '\\u007b"q1": 0\\u007d'),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\\u007b", "\\\\u007b"),
        ("a\u200bb\u2028", "a\\u200bb\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("a\ufe01\U000e0101", "a\\ufe01\\U000e0101"),
        ("<|im_end|>[INST]", "\\u003c|im_end|\\u003e\\u005bINST\\u005d"),
        ("Grüße, 世界 🎉", "Grüße, 世界 🎉"),
    ],
)
def test_what_is_escaped_and_what_is_not(text: str, escaped: str) -> None:
    """Structure and the invisible are written out, ordinary text in any script stays readable."""
    assert escape(text) == escaped


def test_a_short_request_is_shown_whole() -> None:
    """Within the budget everything is shown, part by part."""
    result = excerpt(request("Hello", "World"), (), 1000)
    assert result.rendered == ("[part 1 of 2, user]\nHello\n[part 2 of 2, user]\nWorld")
    assert result.complete


def test_a_long_request_is_shown_around_the_suspicion() -> None:
    """The suspicious span with its surroundings, both ends, and how much is left out."""
    text = "a" * 10_000 + "SUSPICIOUS" + "b" * 10_000
    result = excerpt(request(text), [suspicion_at(10_000, 10_010)], 2000)
    assert "a" * MARGIN + "SUSPICIOUS" + "b" * MARGIN in result.rendered
    assert result.rendered.count("characters left out]") == 2
    assert result.complete
    assert len(result.unescaped) <= 2000


def test_a_long_request_without_a_suspicion_is_incomplete() -> None:
    """Both ends are shown, and the excerpt is incomplete."""
    result = excerpt(request("x" * 10_000), (), 2000)
    assert not result.complete
    assert 0 < len(result.unescaped) <= 2000


@pytest.mark.parametrize("finding", [suspicion_at(None, None), suspicion_at(0, 9_000), suspicion_at(0, 5, path="gone")])
def test_a_suspicion_that_cannot_be_shown_leaves_it_incomplete(finding: Finding) -> None:
    """A suspicion of a whole long segment, of a span beyond the budget, or of an unknown place is not covered."""
    assert not excerpt(request("x" * 10_000), [finding], 2000).complete


def test_suspicions_beyond_the_budget_leave_it_incomplete() -> None:
    """All suspicious places must be seen, not only the first ones."""
    findings = [suspicion_at(at, at + 10) for at in range(0, 100_000, 2_000)]
    assert not excerpt(request("x" * 100_000), findings, 2000).complete


def test_personal_data_is_no_suspicion() -> None:
    """PII findings neither add a window nor make a long text complete."""
    assert not excerpt(request("x" * 10_000), [suspicion_at(5000, 5010, label=Label.PII_DETECTED)], 2000).complete


def test_the_latest_parts_come_first() -> None:
    """Of a long conversation without a suspicion, the end is what is shown."""
    result = excerpt(request(*[f"turn {n} " * 20 for n in range(200)]), (), 2000)
    assert "turn 199 " in result.rendered
    assert "turn 0 " not in result.rendered


def test_many_small_parts_stay_within_bounds() -> None:
    """Thousands of tiny parts cannot make the excerpt long by their headers."""
    assert len(excerpt(request(*["x"] * 5000), (), 2000).rendered) < 5000


def test_escapes_cannot_make_it_long() -> None:
    """A text of escapes is cut and counts as incomplete."""
    result = excerpt(request("\u200b" * 2000), (), 2100)
    assert not result.complete
    assert len(result.rendered) < 2100 * MAX_EXPANSION + 100


def test_a_huge_text_costs_little() -> None:
    """Only the shown text is processed: eight million characters cost no more than one."""
    requests = {size: request("x" * size) for size in (1_000_000, 8_000_000)}
    assert_constant(lambda size: excerpt(requests[size], [suspicion_at(size // 2, size // 2 + 10)], 6000), 1_000_000)
