"""Twin of sidecar/evaluation/baselines.py."""

from __future__ import annotations

from sidecar.evaluation import Row
from sidecar.evaluation.baselines import figures


def row(number: int, text: str, *, attack: bool, **fields: object) -> Row:
    """A labelled text."""
    labels = frozenset({"jailbreak"} if attack else ())
    return Row(str(number), text, labels, not attack, **fields)  # type: ignore[arg-type]


def test_a_set_that_its_words_give_away_is_seen() -> None:
    """Where a word stands in every attack and in no harmless row, words alone tell them; length does not."""
    rows = [row(n, f"zebra number{n % 7}" if n % 2 else f"horse number{n % 7}", attack=bool(n % 2)) for n in range(40)]
    areas = figures(rows)
    assert areas["words"] == 1.0
    assert areas["length"] == 0.5


def test_a_set_that_its_length_gives_away_is_seen() -> None:
    """Attacks twice as long as the rest; the same word everywhere says nothing."""
    rows = [row(n, "word " * (2 if n % 2 else 1), attack=bool(n % 2)) for n in range(40)]
    assert figures(rows) == {"length": 1.0, "words": 0.5}


def test_twins_are_judged_by_other_pairs() -> None:
    """The words of a pair, which occur nowhere else, tell nothing of it: its twin is in the same fold."""
    rows = [row(n, f"topic{n // 2} word", attack=bool(n % 2), pair=f"p{n // 2}") for n in range(60)]
    assert figures(rows)["words"] == 0.5


def test_one_kind_alone_has_no_baseline() -> None:
    """There is nothing to tell apart."""
    assert figures([row(1, "x", attack=False)]) == {"length": None, "words": None}
