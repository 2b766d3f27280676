"""Random secrets shared by replicas, in generations: rotated periodically, old ones deleted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select

from sidecar.storage.database import Database
from sidecar.storage.schema import secrets as table


@dataclass(frozen=True, slots=True)
class Secret:
    """256 random bits and their generation, counted from 1."""

    generation: int
    value: bytes
    created_at: datetime

    @classmethod
    def new(cls, generation: int, now: datetime) -> Secret:
        """A new secret."""
        return cls(generation, secrets.token_bytes(32), now)


class Secrets:
    """The table of secrets. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self, name: str, now: datetime, rotate_after: timedelta) -> Secret:
        """The newest generation, created now if there is none or it is too old; the same on all replicas."""
        newest = await self._newest(name)
        if newest is not None and newest.created_at > now - rotate_after:
            return newest
        fresh = Secret.new(newest.generation + 1 if newest else 1, now)
        row = {"name": name, "generation": fresh.generation, "value": fresh.value, "created_at": now}
        await self._database.insert_new(table, [row])
        return await self._newest(name) or fresh

    async def purge(self, name: str, older_than: datetime) -> None:
        """Delete older generations; HMACs made with them can no longer be recomputed."""
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(table.c.name == name, table.c.created_at < older_than))

    async def _newest(self, name: str) -> Secret | None:
        newest = select(table).where(table.c.name == name).order_by(table.c.generation.desc()).limit(1)
        async with self._database.read() as connection:
            row = (await connection.execute(newest)).one_or_none()
        return None if row is None else Secret(row.generation, row.value, row.created_at)
