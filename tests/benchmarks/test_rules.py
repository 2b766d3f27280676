"""The texts of the rules benchmark."""

from __future__ import annotations

import pytest

from benchmarks.rules import BLOCKING, Hostile, for_re, median, plain, real
from sidecar import policy
from sidecar.types import Finding, Label, LayerName


@pytest.fixture(scope="module")
def hostile() -> Hostile:
    """Of the shipped rules."""
    return Hostile(policy.load().rules)


@pytest.mark.parametrize("size", [50, 1_000])
def test_texts_have_the_size_that_was_asked_for(hostile: Hostile, size: int) -> None:
    """Texts of every kind have the requested size."""
    texts = [plain(size), *real(size), hostile.text(size), hostile.literals(size)]
    assert {len(text) for text in texts} == {size}


def test_hostile_text_is_new_each_time(hostile: Hostile) -> None:
    """A repeated text would be served from the caches of the first."""
    assert len({*hostile.fresh(200), hostile.literals(200), hostile.literals(200)}) >= 17


def test_thinned_text_has_no_piece_that_a_rule_is_certain_of(hostile: Hostile) -> None:
    """It consists of pieces that no rule matches with certainty."""
    requested: list[str] = []

    def scan(text: str) -> list[Finding]:
        requested.append(text)
        return [Finding("A-1", Label.JAILBREAK, BLOCKING - 0.1 * (len(requested) % 2), LayerName.RULES, "prompt")]

    text = hostile.thinned(600, scan)
    assert text == " ".join(requested[::2])[:600]


def test_patterns_for_re() -> None:
    """RE2 syntax is translated to `re`; a pattern that has no translation is left out."""
    translated = for_re(r"\pL+[[:punct:]]\x{e9}\z")
    assert translated
    assert translated.search("naïve!é")
    assert for_re(r"(?P<a>x)(?P<a>y)") is None


def test_the_median() -> None:
    """The median is in microseconds per text."""
    order: list[str] = []
    assert 0 <= median(order.append, ["a", "b", "c"]) < 1e6
    assert order == ["a", "b", "c"]
