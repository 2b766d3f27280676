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


def test_of_an_arc_the_users_turns_are_joined_until_its_aim(rows: list[Row]) -> None:
    """Each conversation is a row twice, with its last turn and without; twins stay on one side of a split."""
    arcs = {row.id: row for row in rows if row.source == "blind_j_arcs_open"}
    value = next(value for value in blind.lines("j_arcs_open") if not value["benign"])
    aim = value["messages"][value["reached"]]["content"]
    row, earlier = (arcs[f"{value['id']}/user/{number}"] for number in range(2))
    assert row.text.endswith(f"\n{aim}") and row.text.startswith(f"{earlier.text}\n")
    assert (row.channel, row.attack, row.fine) == (DIRECT, True, False)
    assert {r.attack for r in arcs.values() if r.group == row.group} == {True, False}
