"""The audit trail: who changed what, when and from where. Events are added and read, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, select

from sidecar.storage.checkpoints import Checkpoints
from sidecar.storage.database import Database
from sidecar.storage.schema import audit as table


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `action` is a constant `noun_verb`; `target` and `detail` may contain text that people entered."""

    at: datetime
    actor: str
    address: str
    action: str
    target: str = ""
    detail: str = ""
    id: int = 0


class Audit:
    """The table of events. Every method may raise `StoreError`."""

    def __init__(self, database: Database, checkpoints: Checkpoints) -> None:
        self._database, self._checkpoints = database, checkpoints

    async def add(self, event: Event) -> None:
        """Add an event; it is on disk when this returns."""
        row = {name: getattr(event, name) for name in ("at", "actor", "address", "action", "target", "detail")}
        async with self._database.write() as connection:
            await self._checkpoints.lock(connection)
            event_id = await connection.scalar(table.insert().values(**row).returning(table.c.id))
            await self._checkpoints.seal(connection, table, [row | {"id": event_id}])

    async def query(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Event]:
        """The newest matching events, at most `limit`; `before` is the id of the last event of the previous page.

        `since` and before `until`: their time.
        """
        conditions: list[ColumnElement[bool]] = []
        if since is not None:
            conditions.append(table.c.at >= since)
        if until is not None:
            conditions.append(table.c.at < until)
        if actor:
            conditions.append(table.c.actor == actor)
        if action:
            conditions.append(table.c.action == action)
        if before is not None:
            conditions.append(table.c.id < before)
        newest = select(table).where(*conditions).order_by(table.c.id.desc()).limit(limit)
        async with self._database.read() as connection:
            return [Event(**row) for row in (await connection.execute(newest)).mappings()]

    async def actions(self) -> list[str]:
        """The distinct actions."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(table.c.action).distinct().order_by(table.c.action))
            return [row.action for row in rows]
