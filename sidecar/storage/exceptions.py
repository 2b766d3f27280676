"""Exceptions from rules: one rule, one text, one key or all of them, until a day, with a reason and an author.

A text is known by its digest alone (`sidecar.scan.exceptions`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select, update

from sidecar.storage.database import Database
from sidecar.storage.schema import exceptions as table


@dataclass(frozen=True, slots=True)
class RuleException:
    """One exception. `key_id` None: for every caller; `decision` is the one that somebody marked as wrong."""

    id: str
    rule: str
    digest: str
    reason: str
    author: str
    created_at: datetime
    expires_at: datetime
    key_id: str | None = None
    decision: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it counts at `now`."""
        return self.revoked_at is None and now < self.expires_at


class Exceptions:
    """The table of exceptions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, exemption: RuleException) -> None:
        """Store a new one."""
        async with self._database.write() as connection:
            await connection.execute(table.insert(), asdict(exemption))

    async def query(self, limit: int = 1000) -> list[RuleException]:
        """All, revoked and expired ones too, the newest first."""
        newest = select(table).order_by(table.c.created_at.desc(), table.c.id).limit(limit)
        return await self._found(newest)

    async def live(self, now: datetime, limit: int = 10_000) -> list[RuleException]:
        """Those that hold at `now`, the newest first."""
        held = select(table).where(table.c.revoked_at.is_(None), table.c.expires_at > now)
        return await self._found(held.order_by(table.c.created_at.desc(), table.c.id).limit(limit))

    async def get(self, exemption_id: str) -> RuleException | None:
        """One of them."""
        found = await self._found(select(table).where(table.c.id == exemption_id))
        return found[0] if found else None

    async def revoke(self, exemption_id: str, at: datetime, by: str) -> bool:
        """Revoke from `at` on. False: there is none that could be."""
        change = update(table).where(table.c.id == exemption_id, table.c.revoked_at.is_(None))
        async with self._database.write() as connection:
            return (await connection.execute(change.values(revoked_at=at, revoked_by=by))).rowcount > 0

    async def purge(self, older_than: datetime) -> int:
        """Delete those that ended before that moment; returns how many."""
        ended = or_(table.c.expires_at < older_than, table.c.revoked_at < older_than)
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(ended))).rowcount

    async def _found(self, wanted: Any) -> list[RuleException]:
        async with self._database.read() as connection:
            return [RuleException(**row) for row in (await connection.execute(wanted)).mappings()]
