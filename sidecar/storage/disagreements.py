"""Decisions on which a shadow policy set, which decides nothing, would differ: the newest, bounded in number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import delete, func, select

from sidecar.storage.database import Database
from sidecar.storage.schema import disagreements as table
from sidecar.storage.teams import of_teams


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A decision's id, its actual and its shadow result. Rules are those that reach the threshold."""

    decision: str
    at: datetime
    key_id: str | None
    revision: str
    action: str
    score: float
    rules: list[str]
    other_revision: str
    other_action: str
    other_score: float
    other_rules: list[str]


_COLUMNS = tuple(field.name for field in fields(Disagreement))


class Disagreements:
    """The table of disagreements. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, disagreements: Sequence[Disagreement]) -> None:
        """Write a batch; existing rows are skipped."""
        rows = [{name: getattr(disagreement, name) for name in _COLUMNS} for disagreement in disagreements]
        await self._database.insert_new(table, rows)

    async def query(
        self,
        *,
        other_revision: str | None = None,
        before: Disagreement | None = None,
        limit: int = 100,
        teams: Sequence[str] | None = None,
    ) -> list[Disagreement]:
        """The newest rows, of these teams, at most `limit`; `before` is the last one of the previous page."""
        newest = (
            select(table)
            .where(*of_teams(table.c.key_id, teams))
            .order_by(table.c.at.desc(), table.c.decision.desc())
            .limit(limit)
        )
        if other_revision is not None:
            newest = newest.where(table.c.other_revision == other_revision)
        if before is not None:
            place = (table.c.at < before.at) | ((table.c.at == before.at) & (table.c.decision < before.decision))
            newest = newest.where(place)
        async with self._database.read() as connection:
            return [Disagreement(**row) for row in (await connection.execute(newest)).mappings()]

    async def get(self, decision: str, teams: Sequence[str] | None = None) -> Disagreement | None:
        """The disagreement about one decision, if that is of these teams."""
        one = select(table).where(table.c.decision == decision, *of_teams(table.c.key_id, teams))
        async with self._database.read() as connection:
            row = (await connection.execute(one)).mappings().one_or_none()
        return None if row is None else Disagreement(**row)

    async def count(self, teams: Sequence[str] | None = None) -> dict[tuple[str, str], int]:
        """How many, of these teams, by actual and shadow action."""
        pair = (table.c.action, table.c.other_action)
        async with self._database.read() as connection:
            rows = await connection.execute(
                select(*pair, func.count()).where(*of_teams(table.c.key_id, teams)).group_by(*pair)
            )
            return {(action, other_action): number for action, other_action, number in rows}

    async def keep(self, max_rows: int) -> int:
        """Delete all but the newest `max_rows`; returns how many were deleted."""
        newest = select(table.c.decision).order_by(table.c.at.desc(), table.c.decision.desc()).limit(max_rows)
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(table.c.decision.not_in(newest)))).rowcount
