"""Where a second policy set, which decides nothing, would have decided otherwise: the newest, at most so many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import delete, func, select

from sidecar.storage.database import Database
from sidecar.storage.schema import disagreements as table


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One decision, by its id, as it was taken and as the second set sees it. Rules are those that reach the bar."""

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


_NAMES = tuple(field.name for field in fields(Disagreement))


class Disagreements:
    """The table of disagreements. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, found: Sequence[Disagreement]) -> None:
        """Write a batch; one that is there already is skipped."""
        rows = [{name: getattr(one, name) for name in _NAMES} for one in found]
        await self._database.insert_new(table, rows)

    async def query(
        self, *, other_revision: str | None = None, before: Disagreement | None = None, limit: int = 100
    ) -> list[Disagreement]:
        """The newest, at most `limit`; `before` is the last one of the page before."""
        newest = select(table).order_by(table.c.at.desc(), table.c.decision.desc()).limit(limit)
        if other_revision is not None:
            newest = newest.where(table.c.other_revision == other_revision)
        if before is not None:
            place = (table.c.at < before.at) | ((table.c.at == before.at) & (table.c.decision < before.decision))
            newest = newest.where(place)
        async with self._database.read() as connection:
            return [Disagreement(**row) for row in (await connection.execute(newest)).mappings()]

    async def count(self) -> dict[tuple[str, str], int]:
        """How many, by what was done and what would have been."""
        pair = (table.c.action, table.c.other_action)
        async with self._database.read() as connection:
            rows = await connection.execute(select(*pair, func.count()).group_by(*pair))
            return {(action, other): number for action, other, number in rows}

    async def keep(self, most: int) -> int:
        """Delete all but the newest `most`; returns how many went."""
        newest = select(table.c.decision).order_by(table.c.at.desc(), table.c.decision.desc()).limit(most)
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(table.c.decision.not_in(newest)))).rowcount
