"""Sessions of the dashboard: a digest of the cookie, whose it is, and when it was used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, or_, select, update

from sidecar.storage.admins import Role
from sidecar.storage.database import Database
from sidecar.storage.schema import admins
from sidecar.storage.schema import sessions as table


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has logged in, and what they may do now. `digest` is the SHA-256 of the cookie's token."""

    digest: bytes
    name: str
    role: Role
    created_at: datetime
    used_at: datetime
    address: str


class Sessions:
    """The table of sessions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, digest: bytes, name: str, address: str, now: datetime) -> None:
        """Begin a session, and note the login."""
        row = {"digest": digest, "name": name, "created_at": now, "used_at": now, "address": address}
        async with self._database.write() as connection:
            await connection.execute(table.insert(), row)
            await connection.execute(update(admins).where(admins.c.name == name).values(last_login_at=now))

    async def find(self, digest: bytes, *, used_after: datetime, begun_after: datetime) -> Session | None:
        """The session with that digest if it was used, and begun, after those moments."""
        fresh = table.c.digest == digest, table.c.used_at > used_after, table.c.created_at > begun_after
        found = select(table, admins.c.role).join(admins, admins.c.name == table.c.name).where(*fresh)
        async with self._database.read() as connection:
            row = (await connection.execute(found)).mappings().one_or_none()
        return None if row is None else Session(**{**row, "role": Role(row["role"])})

    async def list(self, name: str) -> list[Session]:
        """All sessions of one account, the latest used first."""
        found = select(table, admins.c.role).join(admins, admins.c.name == table.c.name).where(table.c.name == name)
        async with self._database.read() as connection:
            rows = (await connection.execute(found.order_by(table.c.used_at.desc()))).mappings()
            return [Session(**{**row, "role": Role(row["role"])}) for row in rows]

    async def touch(self, digest: bytes, now: datetime) -> None:
        """Note that the session is used."""
        async with self._database.write() as connection:
            await connection.execute(update(table).where(table.c.digest == digest).values(used_at=now))

    async def close(self, digest: bytes) -> None:
        """End one session."""
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(table.c.digest == digest))

    async def close_all(self, name: str) -> None:
        """End all sessions of one account."""
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(table.c.name == name))

    async def purge(self, *, used_before: datetime, begun_before: datetime) -> None:
        """Forget sessions that have run out."""
        over = or_(table.c.used_at <= used_before, table.c.created_at <= begun_before)
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(over))
