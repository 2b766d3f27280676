"""Teams: a key belongs to at most one, a user may be limited to some, and rows belong to the team of their key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, select

from sidecar.storage.schema import MAX_TEAM
from sidecar.storage.schema import keys as table

MAX_TEAMS = 50
"""Teams that one user may be limited to."""
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def valid_team(name: str) -> bool:
    """Whether this can name a team: 1 to 64 lower-case letters, digits and `._-`."""
    return 1 <= len(name) <= MAX_TEAM and set(name) <= _NAME


def join_teams(teams: Iterable[str] | None) -> str | None:
    """The teams as they are stored: with blanks between them; None: no limit."""
    return None if teams is None else " ".join(sorted(set(teams)))


def split_teams(stored: str | None) -> tuple[str, ...] | None:
    """The opposite of `join_teams`."""
    return None if stored is None else tuple(stored.split())


def ids_of(teams: Collection[str], key_id: str | None = None) -> Select[Any]:
    """The ids of the keys of these teams, or of this one if it belongs to them; of no team there are none."""
    ids = select(table.c.id).where(table.c.team.in_(sorted(teams)))
    return ids if key_id is None else ids.where(table.c.id == key_id)


def of_teams(column: Any, teams: Sequence[str] | None) -> list[ColumnElement[bool]]:
    """The condition that a column holds the id of a key of these teams; none without a limit."""
    return [] if teams is None else [column.in_(ids_of(teams))]
