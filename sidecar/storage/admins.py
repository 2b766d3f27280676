"""Dashboard accounts, and the one-time invitations by which people choose a password.

Passwords are only set through invitations: for the first admin, a new colleague and a forgotten password alike.
Passwords and invitation tokens are stored as digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import RowMapping, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import admins as table
from sidecar.storage.schema import invitations, sessions, views
from sidecar.storage.teams import join_teams, split_teams

_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-+@")


class Role(StrEnum):
    """What a user may do: look; look after decisions and keys, too; everything. Each includes those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, least: Role) -> bool:
        """Whether it has all permissions of that role."""
        roles = list(Role)
        return roles.index(self) >= roles.index(least)


class ChangeResult(StrEnum):
    """The result of a change to an account."""

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
    teams: tuple[str, ...] | None = None
    """The teams that it is limited to, unless it is an admin; None: all."""
    subject: str | None = None
    """The identity at an OpenID provider, which then decides about role and teams; such an account has no password."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """The right to choose a password once; without a `name` the invited person chooses that, too."""

    digest: bytes
    name: str | None
    role: Role
    created_by: str
    expires_at: datetime
    teams: tuple[str, ...] | None = None


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
        return None if row is None else _admin(row)

    async def list(self) -> list[Admin]:
        """All accounts by name."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(table).order_by(table.c.name))).mappings()
            return [_admin(row) for row in rows]

    async def any(self) -> bool:
        """Whether any account exists."""
        async with self._database.read() as connection:
            return (await connection.execute(select(table.c.name).limit(1))).first() is not None

    async def invite(self, invitation: Invitation, now: datetime) -> None:
        """Store an invitation; earlier ones for the same name, and expired ones, are deleted."""
        void = invitations.c.expires_at <= now
        if invitation.name is not None:
            void |= invitations.c.name == invitation.name
        async with self._database.write() as connection:
            await connection.execute(delete(invitations).where(void))
            await connection.execute(invitations.insert(), _values(invitation))

    async def invitation(self, digest: bytes, now: datetime) -> Invitation | None:
        """The invitation with that digest, if it is valid."""
        async with self._database.read() as connection:
            return await _invitation(connection, digest, now)

    async def invited(self, now: datetime) -> Sequence[Invitation]:
        """The valid invitations that have a name."""
        valid = select(invitations).where(invitations.c.expires_at > now, invitations.c.name.is_not(None))
        async with self._database.read() as connection:
            rows = (await connection.execute(valid.order_by(invitations.c.name))).mappings()
            return [_invitation_of(row) for row in rows]

    async def withdraw(self, name: str) -> bool:
        """Delete the invitations of a name, and so its links. False: there was none."""
        async with self._database.write() as connection:
            return (await connection.execute(delete(invitations).where(invitations.c.name == name))).rowcount > 0

    async def accept(self, digest: bytes, name: str, password: str, now: datetime) -> Admin | None:
        """Use an invitation: create or update its account with that password, and close its sessions.

        `name` is used if the invitation has none; such an invitation can only create the first account.
        None: the invitation is not valid, and nothing has changed.
        """
        async with self._database.write() as connection:
            invitation = await _invitation(connection, digest, now)
            if invitation is None or (invitation.name is None and await _count(connection)):
                return None
            deleted = await connection.execute(delete(invitations).where(invitations.c.digest == digest))
            if deleted.rowcount != 1:
                return None
            await connection.execute(delete(invitations).where(invitations.c.name.is_(None)))
            admin = Admin(invitation.name or name, invitation.role, password, now, teams=invitation.teams)
            return await _upsert(connection, admin)

    async def set_password(self, name: str, password: str) -> None:
        """Replace the password and close all sessions."""
        async with self._database.write() as connection:
            await connection.execute(update(table).where(table.c.name == name).values(password=password))
            await connection.execute(delete(sessions).where(sessions.c.name == name))

    async def set_role(self, name: str, role: Role) -> ChangeResult:
        """Change the role of an account, effective at once; one admin with a password always remains."""
        async with self._database.write() as connection:
            outcome = await _check_removable(connection, name) if role is not Role.ADMIN else ChangeResult.DONE
            if outcome is not ChangeResult.DONE:
                return outcome
            updated = await connection.execute(update(table).where(table.c.name == name).values(role=role))
            return ChangeResult.DONE if updated.rowcount else ChangeResult.UNKNOWN

    async def set_teams(self, name: str, teams: Iterable[str] | None) -> bool:
        """Limit an account to teams, effective at once; None: no limit. False: there is no such account."""
        change = update(table).where(table.c.name == name).values(teams=join_teams(teams))
        async with self._database.write() as connection:
            return (await connection.execute(change)).rowcount > 0

    async def sign_in(self, admin: Admin) -> tuple[Admin | None, Admin] | None:
        """The account of an identity before (None: it is new) and after the provider's role and teams were taken over.

        None, and nothing changed, if the name belongs to another identity.
        """
        is_its = table.c.subject == admin.subject
        async with self._database.write() as connection:
            row = (await connection.execute(select(table).where(is_its).with_for_update())).mappings().one_or_none()
            if row is not None:
                change = {"role": admin.role, "teams": join_teams(admin.teams)}
                await connection.execute(update(table).where(is_its).values(**change))
                before = _admin(row)
                return before, replace(before, role=admin.role, teams=admin.teams)
            if (await connection.execute(select(table.c.name).where(table.c.name == admin.name))).first():
                return None
            await connection.execute(table.insert(), _values(admin))
            return None, admin

    async def remove(self, name: str) -> ChangeResult:
        """Delete an account with its sessions, invitations and own views; one admin with a password always remains."""
        async with self._database.write() as connection:
            if (outcome := await _check_removable(connection, name)) is ChangeResult.DONE:
                await connection.execute(delete(invitations).where(invitations.c.name == name))
                await connection.execute(delete(views).where(views.c.owner == name))
                await connection.execute(delete(table).where(table.c.name == name))
            return outcome


async def _invitation(connection: AsyncConnection, digest: bytes, now: datetime) -> Invitation | None:
    valid = select(invitations).where(invitations.c.digest == digest, invitations.c.expires_at > now)
    row = (await connection.execute(valid)).mappings().one_or_none()
    return None if row is None else _invitation_of(row)


async def _count(connection: AsyncConnection) -> int:
    return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def _upsert(connection: AsyncConnection, admin: Admin) -> Admin:
    """Insert the account; an existing one keeps its role, gets the new password, and its sessions are closed."""
    locked = select(table).where(table.c.name == admin.name).with_for_update()
    existing = (await connection.execute(locked)).one_or_none()
    if existing is None:
        await connection.execute(table.insert(), _values(admin))
        return admin
    await connection.execute(update(table).where(table.c.name == admin.name).values(password=admin.password))
    await connection.execute(delete(sessions).where(sessions.c.name == admin.name))
    return replace(_admin(existing._mapping), password=admin.password)  # noqa: SLF001 - SQLAlchemy's public name


async def _check_removable(connection: AsyncConnection, name: str) -> ChangeResult:
    """Whether the account exists, and an admin with a password would remain without it, if it is one.

    Locks the accounts until commit.
    """
    rows = (await connection.execute(select(table).with_for_update())).mappings().all()
    accounts = {row["name"]: _admin(row) for row in rows}
    if (account := accounts.get(name)) is None:
        return ChangeResult.UNKNOWN
    others = [other for other in accounts.values() if other.name != name and _is_local_admin(other)]
    return ChangeResult.DONE if others or not _is_local_admin(account) else ChangeResult.LAST_ADMIN


def _is_local_admin(account: Admin) -> bool:
    return account.role is Role.ADMIN and account.subject is None


def _admin(row: RowMapping) -> Admin:
    return Admin(**{**row, "role": Role(row["role"]), "teams": split_teams(row["teams"])})


def _invitation_of(row: RowMapping) -> Invitation:
    return Invitation(**{**row, "role": Role(row["role"]), "teams": split_teams(row["teams"])})


def _values(record: Admin | Invitation) -> dict[str, Any]:
    return {**asdict(record), "teams": join_teams(record.teams)}
