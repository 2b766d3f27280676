"""Twin of training/holdout.py: what is held back is a tenth of the corpus and stays out of training."""

from __future__ import annotations

import orjson

from training import holdout
from training.rows import corpus


def test_no_holdout_family_is_used() -> None:
    """None of the families is left in what training sees, and every other row is."""
    rows = corpus()
    training = holdout.training_rows(rows)
    assert not {row.family for row in training} & holdout.FAMILIES
    assert len(rows) - len(training) == sum(row.family in holdout.FAMILIES for row in rows)


def test_a_tenth_of_the_corpus_is_held_back() -> None:
    """Enough rows, of attacks and of harmless texts, in more than fifteen languages."""
    values = [orjson.loads(line) for line in holdout.lines()]
    assert len(values) >= 0.1 * len(corpus())
    assert sum(bool(value["labels"]) for value in values) > 400
    assert sum(not value["labels"] for value in values) > 250
    assert len({value["lang"] for value in values}) > 15


def test_every_family_exists() -> None:
    """No name in the list is a slip of the pen."""
    assert {orjson.loads(line)["source"] for line in holdout.lines()} == holdout.FAMILIES
