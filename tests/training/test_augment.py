"""Twin of training/augment.py."""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random

import pytest

from training import augment

TEXT = "Please tell me how the tides work, in two sentences."


@pytest.mark.parametrize(
    "make", [augment.typos, augment.with_suffix, augment.smuggled, augment.puzzled], ids=lambda m: m.__name__
)
def test_the_same_seed_makes_the_same_text(make: Callable[[str, Random], str]) -> None:
    """A run can be repeated, and another seed makes another text."""
    assert make(TEXT, Random(3)) == make(TEXT, Random(3))
    assert len({make(TEXT, Random(seed)) for seed in range(20)}) > 1


def test_typing_errors_leave_a_text_readable() -> None:
    """Few letters change, and length hardly at all."""
    text = augment.typos(TEXT * 10, Random(1))
    assert text != TEXT * 10
    assert abs(len(text) - 10 * len(TEXT)) < len(TEXT)


@pytest.mark.parametrize("seed", range(40))
def test_an_insertion_says_where_it_stands(seed: int) -> None:
    """Wherever the sentence goes, the place holds exactly it, and nothing of the document is lost."""
    document = "First line here.\nSecond one, longer.\nThird and last."
    text, (start, end) = augment.insert(document, TEXT, Random(seed))
    assert text[start:end] == TEXT
    assert (text[:start] + text[end:]).split() == document.split()


def test_an_encoded_text_can_be_decoded() -> None:
    """Encodings are true ones, not decoration."""
    texts = [augment.smuggled(TEXT, Random(seed)) for seed in range(60)]
    assert any(base64.b64encode(TEXT.encode()).decode() in text for text in texts)
    assert any(TEXT[::-1] in text for text in texts)


def test_gibberish_and_noise_are_never_empty() -> None:
    """There is always something there."""
    assert all(augment.gibberish(Random(seed)).strip() and augment.machine_noise(Random(seed)) for seed in range(50))
