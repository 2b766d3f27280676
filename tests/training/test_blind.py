"""Twin of training/blind.py."""

from __future__ import annotations

from collections import Counter

import pytest

from training import blind
from training.rows import APPLICATION, DIRECT, INDIRECT, Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """All rows of the opened sets."""
    return blind.rows()


def test_a_row_is_the_text_that_carries_the_attack(rows: list[Row]) -> None:
    """A poisoned definition is the application's, an extraction the user's, a foreign line in a skill is read."""
    channels = {(row.source, row.channel) for row in rows if row.attack}
    assert {("blind_b_poisoned", APPLICATION), ("blind_overlap", DIRECT), ("blind_b_skills", INDIRECT)} <= channels
    assert ("blind_b_poisoned", DIRECT) not in channels
    assert {row.channel for row in rows if row.source == "blind_sysprompts"} == {DIRECT, APPLICATION}


def test_twins_share_a_group(rows: list[Row]) -> None:
    """Every paired group has an attack and a harmless text; ids are unique."""
    sides = Counter((row.group, row.attack) for row in rows if row.paired)
    assert {count for (_, attack), count in sides.items() if attack} == {1}
    assert all(sides[group, False] == 1 for group, attack in sides if attack)
    assert len({row.id for row in rows}) == len(rows)
