"""Twin of benchmarks/transliterations.py: its texts, its halves, and what the rules find in them."""

from __future__ import annotations

import pytest

from benchmarks.transliterations import PARTS, is_of, measure, texts
from sidecar.evaluation import Row


@pytest.mark.parametrize("part", PARTS)
def test_ten_forms_have_as_many_twins_as_attacks(part: str) -> None:
    """None of them twice."""
    forms = texts(part)
    found = [text for rows in forms.values() for kind in ("attacks", "harmless") for text in rows[kind]]
    assert (len(forms), len(found), len(set(found))) == (10, 100, 100)
    assert {len(rows[kind]) for rows in forms.values() for kind in rows} == {5}


@pytest.mark.parametrize("part", PARTS)
async def test_the_rules_find_the_orders_and_no_twin(part: str) -> None:
    """Without the model, which reads none of the forms."""
    results = await measure(part, ["rules"])
    assert [(result.form, result.passed, result.refused) for result in results if result.passed or result.refused] == []


def test_a_row_belongs_to_one_half() -> None:
    """By its text; long rows belong to none."""
    rows = [Row(id=str(number), text=f"text {number}", labels=frozenset(), benign=True) for number in range(40)]
    halves = [[row.id for row in rows if is_of(row, part)] for part in PARTS]
    assert sorted(halves[0] + halves[1]) == sorted(row.id for row in rows)
    assert all(halves)
    assert not any(is_of(Row(id="0", text="a" * 401, labels=frozenset(), benign=True), part) for part in PARTS)
