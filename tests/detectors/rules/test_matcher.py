"""Many patterns are matched in one pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar import policy
from sidecar.detectors.rules.chunks import MAX_MATCH, MIN_CHUNK
from sidecar.detectors.rules.matcher import (
    COMPILE_COST,
    STUFFING_KEYWORDS,
    STUFFING_PATTERNS,
    STUFFING_WINDOW,
    Matcher,
    PrefilterResult,
)

SHIPPED = [pattern for rule in policy.load().rules for pattern in rule.patterns]
MATCHER = Matcher(SHIPPED)
ALONE = [re2.compile(pattern, policy.re2_options()) for pattern in SHIPPED]
PATTERNS_AND_EXAMPLES = [(rule.patterns, rule.match) for rule in policy.load().rules if rule.patterns]
LINES = [line for rule in policy.load().rules for line in (*rule.match, *rule.no_match)]


def matches(matcher: Matcher, text: str) -> list[int]:
    """The patterns that match this text, which is not keyword-stuffed."""
    read = matcher.prefilter(text)
    assert read is not None
    return [number for number in matcher.matching(read) if any(matcher.spans(number, text))]


def possible(matcher: Matcher, text: str) -> list[int]:
    """The candidate patterns."""
    read = matcher.prefilter(text)
    assert read is not None
    return sorted(matcher._candidate_spans(read, -1))


def test_patterns_are_met_by_their_number() -> None:
    """Patterns with and without literals are found."""
    matcher = Matcher([r"[a-z]+\s", "word", "other", r"\d{4}"])
    assert matches(matcher, "a WORD of 1234") == [0, 1, 3]
    assert matches(matcher, "nothing") == []


def test_a_pattern_that_is_not_wanted_is_not_searched() -> None:
    """Patterns outside the mask never match; an owner may be finished before the turn of its next pattern."""
    matcher = Matcher(["one", "two", "three", "four"], ["a", "b", "b", "b"])
    read = matcher.prefilter("one two three four")
    assert read is not None
    assert list(matcher.matching(read, 0b110)) == [1, 2]
    assert list(matcher.matching(read, finished={"b"})) == [0]
    finished: set[str] = set()
    found = []
    for number in matcher.matching(read, finished=finished):
        found.append(number)
        if number == 2:
            finished.add("b")
    assert found == [0, 1, 2]


def test_digits_in_a_row_are_counted() -> None:
    """Runs of digits shorter than required exclude a pattern; digits of other scripts are letters."""
    matcher = Matcher([r"\d{4}", r"\d{20}", r"[1-9]\d{2}", r"[٠-٩]{4}"])
    candidates = {text: possible(matcher, text) for text in ("12 34", "1234", "1" * 30, "٠١٢٣")}
    assert candidates == {"12 34": [], "1234": [0, 2], "1" * 30: [0, 1, 2], "٠١٢٣": [3]}
    assert matches(matcher, "٠١٢٣ " + "1" * 30) == [0, 1, 2, 3]


def test_patterns_that_need_no_words_share_automata_while_they_are_small() -> None:
    """Small patterns without literals share automata up to the size limit."""
    bare = ["[a-m]{4}x", r"(?:\w{9}\s){40}", "[n-z]{4}x", r"(?:-\w{9}){40}"]
    matcher = Matcher(["words", *bare])
    assert [(mask, bits) for mask, bits, _ in matcher._groups] == [(14, [2, 4, 8]), (16, [16])]
    for number, text in enumerate(("words", "abcdx", "lighthous " * 40, "nopqx", "-lighthous" * 40)):
        assert matches(matcher, text) == [number]
    assert matches(matcher, "words abcdx nopqx") == [0, 1, 3]


def test_the_work_that_a_text_makes_is_known_beforehand() -> None:
    """The estimate counts candidates and compilation, and is 0 for stuffed text."""
    matcher = Matcher(["ferryboat", "harbour", "[a-z]{11}x"])
    reads = [matcher.prefilter(text) for text in ("moon", "ferryboat", "harbour ferryboat", "")]
    first, second = (COMPILE_COST * policy.program_size(pattern) for pattern in ("ferryboat", "harbour"))
    assert [matcher.estimated_work(read) for read in reads] == [4, 18 + first, 51 + first + second, 0]
    assert [matcher.estimated_work(read, 0b100) for read in reads] == [4, 9, 17, 0]
    assert not any(list(matcher.matching(read)) for read in reads[:1] if read)
    assert [*matcher.matching(reads[2] or PrefilterResult(b"", [], [], 0))] == [0, 1]
    again = Matcher(["harbour"])
    assert again.estimated_work(again.prefilter("harbour")) == 7
    assert matcher.estimated_work(None) == 0


def test_places_count_code_points() -> None:
    """Spans are in code points."""
    matcher = Matcher(["rule"])
    assert list(matcher.spans(0, "déjà 😀 rule, rule")) == [(7, 11), (13, 17)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LINES), st.text(max_size=30), st.sampled_from([str.upper, str.title, str.swapcase, str]))
def test_no_pattern_is_overlooked_for_its_words(line: str, around: str, written: object) -> None:
    """Searching candidate spans finds the same as searching the whole text."""
    text = (around + written(line) + around).encode("utf-8", "replace").decode()  # type: ignore[operator]
    alone = [number for number, pattern in enumerate(ALONE) if pattern.search(text.encode())]
    assert matches(MATCHER, text) == alone


@pytest.mark.parametrize("change", [str, str.upper, lambda line: line.replace(" ", "  -\n")])
def test_every_example_holds_the_words_of_its_patterns(change: Callable[[str], str]) -> None:
    """Every example passes the prefilter: as written, in capitals, with wider gaps."""
    for patterns, lines in PATTERNS_AND_EXAMPLES:
        numbers = [SHIPPED.index(pattern) for pattern in patterns]
        for line in map(change, lines):
            candidates = possible(MATCHER, line)
            assert [n for n in numbers if ALONE[n].search(line.encode()) and n not in candidates] == []


FILLERS = (
    "The committee met on Tuesday and asked about the new library. " * 40,
    "Комитет собрался во вторник и обсудил новую библиотеку. " * 40,
    "委員会は火曜日に集まり、新しい図書館について話し合った。" * 60,
    " . , " * 400,
    "x" * 2_000,
    "word_of-words" * 200,
    "\u212a\u017f ",
    "0101 0202 ",
    "\n",
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(range(len(PATTERNS_AND_EXAMPLES))), min_size=1, max_size=2),
    st.lists(st.tuples(st.sampled_from(FILLERS), st.integers(0, 3_000)), min_size=2, max_size=5),
    st.booleans(),
    st.sampled_from(["", " " * 900, " . " * 500, "指示" * 300]),
)
def test_searching_in_places_finds_what_searching_everywhere_finds(
    rules: list[int], fillers: list[tuple[str, int]], loud: bool, between: str
) -> None:
    """Examples are found anywhere in a long text, with any gaps."""
    patterns, lines = zip(*(PATTERNS_AND_EXAMPLES[at] for at in rules), strict=True)
    parts = [filler[cut:] for filler, cut in fillers]
    for at, line in enumerate(line for of_one in lines for line in of_one[:2]):
        parts.insert(at + 1, line.replace(" ", between or " "))
    text = "".join(parts).upper() if loud else "".join(parts)
    all_patterns = [pattern for of_one in patterns for pattern in of_one]
    matcher = Matcher(all_patterns)
    alone = [number for number, pattern in enumerate(all_patterns) if policy.compiled(pattern).search(text)]
    assert matches(matcher, text) == alone


@pytest.mark.parametrize(
    "start", [0, MIN_CHUNK - 3, MIN_CHUNK, 2 * MIN_CHUNK - 5, 3 * MIN_CHUNK - 1, 7 * MIN_CHUNK + 2]
)
@pytest.mark.parametrize("words", ["necessary words", "necessary" + " " * 4_000 + "words", "notwendige Wörter"])
def test_matches_are_found_across_chunks(start: int, words: str) -> None:
    """A match is found wherever chunks end."""
    text = ("a b, " * start)[:start] + words + " c d" * MIN_CHUNK
    assert matches(Matcher([r"\bnecessary[\s\W_]+words\b", r"\bnotwendige\s+W\W?rter\b"]), text) == [int("ö" in words)]


def test_a_pattern_is_searched_only_where_its_words_are() -> None:
    """Distant literals give no candidate, unless the pattern is unbounded."""
    matcher = Matcher([r"\bone\b[^\n]{0,40}\btwo\b", r"\bone\b[^\n]*\btwo\b"])
    far = "one" + " and so on" * MAX_MATCH + " two"
    assert possible(matcher, far) == [1]
    near = " and so on" * MAX_MATCH + " one two" + " and so on" * MAX_MATCH
    read = matcher.prefilter(near)
    assert read is not None
    places = matcher._candidate_spans(read, -1)
    assert sorted(places) == [0, 1]
    assert sum(end - start for start, end in places[0]) < 5 * MIN_CHUNK
    assert places[1] == [(0, len(near))]
    assert matches(matcher, near) == [0, 1]


def test_what_only_seems_to_be_met_at_the_edge_of_a_place_is_not() -> None:
    """Chunk borders are neither text starts nor word boundaries."""
    text = ("and so on, " * MIN_CHUNK) + "mark my words" + (", and so on" * MIN_CHUNK)
    assert matches(Matcher([r"\A[^\n]{0,700}mark my", r"my words[^\n]{0,700}\z"]), text) == []


def test_many_candidate_patterns_are_keyword_stuffing() -> None:
    """Many candidates in a chunk are stuffing; the same words spread out are not."""
    words = ["".join(letters) for letters in product("bcdfghj", repeat=3)][: STUFFING_PATTERNS + 20]
    matcher = Matcher(words)
    assert matcher.prefilter(" ".join(words)) is None
    assert len(matches(matcher, (" , of course, " * 9).join(words))) == len(words)


def test_many_distinct_keywords_are_keyword_stuffing() -> None:
    """Many distinct keywords are stuffing; repeating a few is not."""
    words = ["".join(letters) for letters in product("bcdf", repeat=4)][:STUFFING_KEYWORDS]
    matcher = Matcher(words)
    other = ["and so on"] * (STUFFING_WINDOW // 6)
    assert matcher.prefilter(" ".join(words + other)) is None
    assert matcher.prefilter(" ".join(words[1:] * 3 + other)) is not None
