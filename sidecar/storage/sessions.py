"""Dashboard sessions: a digest of the cookie, the account, and the time of last use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, delete, or_, select, update

from sidecar.storage.admins import Role
from sidecar.storage.database import Database
from sidecar.storage.schema import admins
from sidecar.storage.schema import sessions as table
from sidecar.storage.teams import split_teams

_OF_ACCOUNTS = select(table, admins.c.role, admins.c.teams).join(admins, admins.c.name == table.c.name)


@dataclass(frozen=True, slots=True)
class Session:
    """A logged-in account and its current role. `digest` is the SHA-256 of the cookie's token."""

    digest: bytes
    name: str
    role: Role
    created_at: datetime
    used_at: datetime
    address: str
    teams: tuple[str, ...] | None = None
    """The teams that the account is limited to; None: all."""


class Sessions:
    """The table of sessions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, digest: bytes, name: str, address: str, now: datetime) -> None:
        """Create a session and record the login."""
        row = {"digest": digest, "name": name, "created_at": now, "used_at": now, "address": address}
        async with self._database.write() as connection:
            await connection.execute(table.insert(), row)
            await connection.execute(update(admins).where(admins.c.name == name).values(last_login_at=now))

    async def find(self, digest: bytes, *, used_after: datetime, created_after: datetime) -> Session | None:
        """The session with that digest if it was used, and created, after those times."""
        fresh = table.c.digest == digest, table.c.used_at > used_after, table.c.created_at > created_after
        statement = _OF_ACCOUNTS.where(*fresh)
        async with self._database.read() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return None if row is None else _session(row)

    async def list(self, name: str) -> list[Session]:
        """All sessions of an account, the most recently used first."""
        statement = _OF_ACCOUNTS.where(table.c.name == name)
        async with self._database.read() as connection:
            rows = (await connection.execute(statement.order_by(table.c.used_at.desc()))).mappings()
            return [_session(row) for row in rows]

    async def touch(self, digest: bytes, now: datetime) -> None:
        """Record a use of the session."""
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

    async def purge(self, *, used_before: datetime, created_before: datetime) -> None:
        """Delete expired sessions."""
        expired = or_(table.c.used_at <= used_before, table.c.created_at <= created_before)
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(expired))


def _session(row: RowMapping) -> Session:
    return Session(**{**row, "role": Role(row["role"]), "teams": split_teams(row["teams"])})
