"""Many patterns in one pass."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar import policy
from sidecar.errors import PolicyError
from sidecar.layers import matcher as matching
from sidecar.layers.matcher import CROWD, SLICE, Matcher

SHIPPED = [pattern for rule in policy.load().rules for pattern in rule.patterns]
MATCHER = Matcher(SHIPPED)
ALONE = [re2.compile(pattern, policy.options()) for pattern in SHIPPED]
LINES = [line for rule in policy.load().rules for line in (*rule.match, *rule.no_match)]


def met(matcher: Matcher, text: str, wanted: Callable[[int], bool] = lambda _: True) -> list[int]:
    """The patterns that this text, which is not stuffed, meets."""
    words = matcher.words(text)
    assert words is not None
    return list(matcher.met(text, words, wanted=wanted))


def test_patterns_are_met_by_their_number() -> None:
    """Those with necessary words and those without any."""
    matcher = Matcher([r"[a-z]+\s", "word", "other", r"\d{4}"])
    assert met(matcher, "a WORD of 1234") == [0, 1, 3]
    assert met(matcher, "nothing") == []


def test_a_pattern_that_is_not_wanted_is_not_searched() -> None:
    """Those without a bit never; what is wanted is asked when the pattern's turn comes."""
    matcher = Matcher(["one", "two", "three"])
    assert list(matcher.met("one two three", matcher.words("one two three") or 0, 0b110)) == [1, 2]
    assert met(matcher, "one two three", lambda number: number != 1) == [0, 2]


def test_digits_in_a_row_are_counted() -> None:
    """A pattern that needs more in a row than the text has is not searched; digits of other scripts are letters."""
    matcher = Matcher([r"\d{4}", r"\d{20}", r"[1-9]\d{2}", r"[٠-٩]{4}"])
    possible = {text: list(matcher._possible(matcher.words(text) or 0)) for text in ("12 34", "1234", "1" * 30, "٠١٢٣")}
    assert possible == {"12 34": [2], "1234": [0, 2], "1" * 30: [0, 1, 2], "٠١٢٣": [3]}
    assert met(matcher, "٠١٢٣ " + "1" * 30) == [0, 1, 2, 3]


def test_the_work_that_a_text_makes_is_known_beforehand() -> None:
    """Its length for every pattern that is possible in it."""
    matcher = Matcher(["ferry", "harbour", "[a-z]{9}x"])
    texts = ("moon", "ferry", "harbour ferry", "")
    assert [matcher.work(text, matcher.words(text)) for text in texts] == [4, 10, 39, 0]


def test_places_count_code_points() -> None:
    """Not bytes, whatever stands before."""
    matcher = Matcher(["rule"])
    assert list(matcher.spans(0, "déjà 😀 rule, rule")) == [(7, 11), (13, 17)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LINES), st.text(max_size=30), st.sampled_from([str.upper, str.title, str.swapcase, str]))
def test_no_pattern_is_overlooked_for_its_words(line: str, around: str, written: object) -> None:
    """Searching only where the necessary words are finds what searching everywhere finds."""
    text = (around + written(line) + around).encode("utf-8", "replace").decode()  # type: ignore[operator]
    alone = [number for number, pattern in enumerate(ALONE) if pattern.search(text.encode())]
    assert met(MATCHER, text) == alone


@pytest.mark.parametrize("start", [0, SLICE - 3, SLICE, 3 * SLICE - 1])
def test_a_word_is_found_across_slices(start: int) -> None:
    """Wherever the text is cut."""
    assert met(Matcher(["necessary"]), "." * start + "necessary" + "." * SLICE) == [0]


def test_a_text_made_of_necessary_words_is_stuffed() -> None:
    """So many in so little text; the same words spread out are none."""
    words = [f"w{number:03}" for number in range(CROWD + 20)]
    matcher = Matcher(words)
    assert matcher.words(" ".join(words)) is None
    assert len(met(matcher, (" " * 50).join(words))) == len(words)


def test_a_pattern_too_large_for_an_automaton_is_refused() -> None:
    """At load, not by silence at scan time."""
    with pytest.raises(PolicyError, match="too large"):
        Matcher([r"(?:\pL\pN\pP){400}"])


def test_automata_are_shared_while_they_are_in_use() -> None:
    """Policies that are read again while the old ones serve cost only what has changed; nothing is kept for ever."""
    first, second = Matcher(["shared words", "first alone"]), Matcher(["shared words", "second alone"])
    assert first._sets[0] is second._sets[0]
    assert {"first alone", "shared words"} <= set(matching._ALIVE)
    del first
    gc.collect()
    assert "first alone" not in matching._ALIVE
    assert met(second, "the shared words") == [0]
