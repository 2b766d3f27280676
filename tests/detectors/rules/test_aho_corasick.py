"""The Aho-Corasick index finds every literal of a text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sidecar.detectors.rules.aho_corasick import BLOCK, AhoCorasickIndex


def test_words_that_a_text_holds() -> None:
    """Nested and overlapping literals are all found."""
    words = AhoCorasickIndex({b"she": 1, b"he": 2, b"hers": 4, b"is": 8})
    assert [words.search(text) for text in (b"ushers", b"", b"his", b"hhe")] == [7, 0, 8, 2]
    assert words.longest == 4


def test_no_words() -> None:
    """An empty index finds nothing."""
    assert (AhoCorasickIndex({}).search(b"text"), AhoCorasickIndex({}).longest) == (0, 0)


@pytest.mark.parametrize("at", [0, 1, BLOCK - 3, BLOCK - 1, BLOCK, 3 * BLOCK - 2])
def test_words_are_found_wherever_the_text_is_sliced(at: int) -> None:
    """Literals are found across block borders and after identical blocks."""
    words = AhoCorasickIndex({b"harbour": 1, b"or": 2})
    assert words.search(b" " * at + b"harbour" + b" " * 2 * BLOCK) == 1
    assert words.search(b" " * at + b"harbou" + b" " * 2 * BLOCK + b"r") == 0


PEAK = """
import resource
from sidecar.detectors.rules.matcher import Matcher
from sidecar.policy import load
matcher = Matcher([pattern for rule in load().rules for pattern in rule.patterns])
matcher.prefilter("{[=@ +:<" * 10 + "words of a text, \u200b\u212a" * 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for sign in "{ [+=@:<\u200b":
    matcher.prefilter(sign * 1_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss")
def test_a_million_signs_take_no_more_memory_than_their_bytes() -> None:
    """Memory is a few copies of the text, not a list of all matches."""
    process = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, timeout=300)
    assert int(process.stdout) < 48 * 1024
