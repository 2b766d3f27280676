"""People who may enter the dashboard, and the one-time invitations by which they choose a password.

An invitation is the only way to a password: the first admin, a new colleague and a forgotten password
all go through one. Passwords and invitation tokens are known by their digests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import admins as table
from sidecar.storage.schema import invitations, sessions

_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-+@")


class Role(StrEnum):
    """What somebody may do: everything, or look."""

    ADMIN = "admin"
    VIEWER = "viewer"


class Change(StrEnum):
    """What became of a change to somebody's account."""

    DONE = "done"
    UNKNOWN = "unknown"
    LAST_ADMIN = "last_admin"


@dataclass(frozen=True, slots=True)
class Admin:
    """An account. `password` is an argon2id hash in its usual text form."""

    name: str
    role: Role
    password: str
    created_at: datetime
    last_login_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Invitation:
    """A right to choose a password once; without a `name` its bearer chooses that too."""

    digest: bytes
    name: str | None
    role: Role
    created_by: str
    expires_at: datetime


def valid_name(name: str) -> bool:
    """Whether this can name an account: 1 to 64 lower-case letters, digits and `._-+@`."""
    return 1 <= len(name) <= 64 and set(name) <= _NAME


class Admins:
    """The tables of accounts and invitations. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> Admin | None:
        """One account."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(table).where(table.c.name == name))).mappings().one_or_none()
        return None if row is None else Admin(**{**row, "role": Role(row["role"])})

    async def list(self) -> list[Admin]:
        """All accounts by name."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(table).order_by(table.c.name))).mappings()
            return [Admin(**{**row, "role": Role(row["role"])}) for row in rows]

    async def any(self) -> bool:
        """Whether there is an account at all."""
        async with self._database.read() as connection:
            return (await connection.execute(select(table.c.name).limit(1))).first() is not None

    async def invite(self, invitation: Invitation, now: datetime) -> None:
        """Store an invitation; earlier ones for the same name, and all that have expired, are void."""
        void = invitations.c.expires_at <= now
        if invitation.name is not None:
            void |= invitations.c.name == invitation.name
        async with self._database.write() as connection:
            await connection.execute(delete(invitations).where(void))
            await connection.execute(invitations.insert(), asdict(invitation))

    async def invitation(self, digest: bytes, now: datetime) -> Invitation | None:
        """The invitation with that digest, while it holds."""
        async with self._database.read() as connection:
            return await _invitation(connection, digest, now)

    async def invited(self, now: datetime) -> Sequence[Invitation]:
        """The invitations for known names that still hold."""
        held = select(invitations).where(invitations.c.expires_at > now, invitations.c.name.is_not(None))
        async with self._database.read() as connection:
            rows = (await connection.execute(held.order_by(invitations.c.name))).mappings()
            return [Invitation(**{**row, "role": Role(row["role"])}) for row in rows]

    async def accept(self, digest: bytes, name: str, password: str, now: datetime) -> Admin | None:
        """Use an invitation up: its account exists with that password, and all its sessions are closed.

        `name` counts where the invitation has none; such a one makes the first account and no other.
        None: the invitation does not hold, and nothing has changed.
        """
        async with self._database.write() as connection:
            held = await _invitation(connection, digest, now)
            if held is None or (held.name is None and await _count(connection)):
                return None
            used = await connection.execute(delete(invitations).where(invitations.c.digest == digest))
            if used.rowcount != 1:
                return None
            await connection.execute(delete(invitations).where(invitations.c.name.is_(None)))
            return await _enter(connection, Admin(held.name or name, held.role, password, now))

    async def set_password(self, name: str, password: str) -> None:
        """Replace the password and close all sessions."""
        async with self._database.write() as connection:
            await connection.execute(update(table).where(table.c.name == name).values(password=password))
            await connection.execute(delete(sessions).where(sessions.c.name == name))

    async def set_role(self, name: str, role: Role) -> Change:
        """Change what somebody may do, at once; one admin always remains."""
        async with self._database.write() as connection:
            outcome = await _spare(connection, name) if role is not Role.ADMIN else Change.DONE
            if outcome is not Change.DONE:
                return outcome
            changed = await connection.execute(update(table).where(table.c.name == name).values(role=role))
            return Change.DONE if changed.rowcount else Change.UNKNOWN

    async def remove(self, name: str) -> Change:
        """Delete an account with its sessions and invitations; one admin always remains."""
        async with self._database.write() as connection:
            await connection.execute(delete(invitations).where(invitations.c.name == name))
            if (outcome := await _spare(connection, name)) is Change.DONE:
                await connection.execute(delete(table).where(table.c.name == name))
            return outcome


async def _invitation(connection: AsyncConnection, digest: bytes, now: datetime) -> Invitation | None:
    held = select(invitations).where(invitations.c.digest == digest, invitations.c.expires_at > now)
    row = (await connection.execute(held)).mappings().one_or_none()
    return None if row is None else Invitation(**{**row, "role": Role(row["role"])})


async def _count(connection: AsyncConnection) -> int:
    return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def _enter(connection: AsyncConnection, admin: Admin) -> Admin:
    """Insert the account; one that exists keeps its role, gets the new password, and its sessions are closed."""
    found = (await connection.execute(select(table).where(table.c.name == admin.name).with_for_update())).one_or_none()
    if found is None:
        await connection.execute(table.insert(), asdict(admin))
        return admin
    await connection.execute(update(table).where(table.c.name == admin.name).values(password=admin.password))
    await connection.execute(delete(sessions).where(sessions.c.name == admin.name))
    return replace(admin, role=Role(found.role), created_at=found.created_at, last_login_at=found.last_login_at)


async def _spare(connection: AsyncConnection, name: str) -> Change:
    """Whether there is such an account, and an admin would remain without it. Holds the accounts until the end."""
    found = (await connection.execute(select(table.c.name, table.c.role).with_for_update())).all()
    if name not in {row.name for row in found}:
        return Change.UNKNOWN
    others = [row for row in found if row.role == Role.ADMIN and row.name != name]
    return Change.DONE if others else Change.LAST_ADMIN
