"""The table of API keys: created, read, revoked, rotated, deleted. Stores digests, never values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict

from sqlalchemy import Row, Select, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import MAX_LINEAGE
from sidecar.storage.schema import keys as table
from sidecar.storage.teams import of_teams
from sidecar.util.units import Rate

LOOK_UP_TIMEOUT = 2.0
Mode = Literal["enforce", "monitor"]
_CHANGEABLE = ("expires_at", "rate_requests", "rate_period", "burst", "threshold", "mode", "rules", "team", "profile")


class KeyState(StrEnum):
    """The three states of the interface specification."""

    VALID = "valid"
    REVOKED = "revoked"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The record of a key, without its value. `None` from `rate` to `profile` means the general setting."""

    id: str
    name: str
    environment: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    successor: str | None = None
    rate: Rate | None = None
    burst: int | None = None
    threshold: float | None = None
    mode: Mode | None = None
    rules: str | None = None
    """Rule changes, as `sidecar.util.units.parse_rule_changes` reads it."""
    profile: str | None = None
    """The profile of the settings that its requests have."""
    lineage: str | None = None
    """The ids of the keys that it is a successor of, the latest first, with blanks between them."""
    team: str | None = None
    """Whose users see it and its decisions; None: those who see all teams."""

    @property
    def former_ids(self) -> tuple[str, ...]:
        """The keys that this one is a successor of. Their exceptions hold for it, too."""
        return tuple((self.lineage or "").split())

    def state(self, now: datetime) -> KeyState:
        """Its state at `now`, by the wall clock."""
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.VALID

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return {**asdict(self), "rate": self.rate and f"{self.rate.requests} per {self.rate.period:g} s"}


class KeyOverrides(TypedDict, total=False):
    """What a key may have of its own; `None` means the general setting, or no team."""

    rate: Rate | None
    burst: int | None
    threshold: float | None
    mode: Mode | None
    rules: str | None
    team: str | None
    profile: str | None


class KeyChanges(KeyOverrides, total=False):
    """What may change during the life of a key; it never expires if `expires_at` is `None`."""

    expires_at: datetime | None


class Keys:
    """The table of keys. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """Store a new key."""
        async with self._database.write() as connection:
            await connection.execute(table.insert(), _row(key, digest))

    async def get(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        """The key and its digest; requests wait for it, so it has a short time limit."""
        async with self._database.read(LOOK_UP_TIMEOUT) as connection:
            return _key_and_digest(await connection.execute(_by_id(key_id)))

    async def with_terms(self) -> list[ApiKey]:
        """Those that are not revoked and have a mode, a threshold, rules or a profile of their own."""
        terms = or_(
            *(column.is_not(None) for column in (table.c.mode, table.c.threshold, table.c.rules, table.c.profile))
        )
        statement = select(table).where(table.c.revoked_at.is_(None), terms).order_by(table.c.id)
        async with self._database.read() as connection:
            return [_key(row) for row in await connection.execute(statement)]

    async def of_teams(self, key_id: str, teams: Sequence[str] | None) -> ApiKey | None:
        """The key if it belongs to these teams."""
        async with self._database.read() as connection:
            row = _key_and_digest(await connection.execute(_by_id(key_id).where(*of_teams(table.c.id, teams))))
        return row and row[0]

    async def teams(self) -> Sequence[str]:
        """The teams that have keys."""
        names = select(table.c.team).where(table.c.team.is_not(None)).distinct().order_by(table.c.team)
        async with self._database.read() as connection:
            return [str(name) for name in await connection.scalars(names)]

    async def list(self, teams: Sequence[str] | None = None) -> list[ApiKey]:
        """All keys, or those of these teams, the oldest first."""
        rows_of = select(table).where(*of_teams(table.c.id, teams)).order_by(table.c.created_at, table.c.id)
        async with self._database.read() as connection:
            rows = await connection.execute(rows_of)
            return [_key(row) for row in rows]

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke from `at` on; a revoked key is unchanged. False: there is no such key."""
        async with self._database.write() as connection:
            key = _key_and_digest(await connection.execute(_by_id(key_id)))
            await connection.execute(
                update(table).where(table.c.id == key_id, table.c.revoked_at.is_(None)).values(revoked_at=at)
            )
        return key is not None

    async def delete(self, key_id: str) -> bool:
        """Delete the record. False: there was none."""
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(table.c.id == key_id))).rowcount > 0

    async def rotate(self, key_id: str, successor: ApiKey, digest: bytes, until: datetime) -> ApiKey | None:
        """Store a successor that inherits from the key, which then expires at `until` at the latest.

        All or nothing, and only for a valid key without a successor; else nothing changes and the result is `None`. Of
        concurrent rotations one succeeds.
        """
        async with self._database.write() as connection:
            row = _key_and_digest(await connection.execute(_by_id(key_id).with_for_update()))
            now = successor.created_at
            if row is None or row[0].successor or row[0].state(now) is not KeyState.VALID:
                return None
            successor_key = _inherit(row[0], successor)
            await connection.execute(table.insert(), _row(successor_key, digest))
            await self._retire(connection, row[0], successor_key.id, until)
            return successor_key

    async def _retire(self, connection: AsyncConnection, key: ApiKey, successor: str, until: datetime) -> None:
        expires = min(until, key.expires_at or until)
        change = update(table).where(table.c.id == key.id).values(expires_at=expires, successor=successor)
        await connection.execute(change)

    async def change(self, key_id: str, changes: KeyChanges, now: datetime) -> tuple[ApiKey, ApiKey] | None:
        """Change a key; returns it before and after. None, and nothing changed, unless it is valid."""
        async with self._database.write() as connection:
            row = _key_and_digest(await connection.execute(_by_id(key_id).with_for_update()))
            if row is None or row[0].state(now) is not KeyState.VALID:
                return None
            new = replace(row[0], **changes)
            columns = _row(new, row[1])
            values = {name: columns[name] for name in _CHANGEABLE}
            await connection.execute(update(table).where(table.c.id == key_id).values(**values))
            return row[0], new

    async def touch(self, last_uses: Mapping[str, datetime]) -> None:
        """Save when keys were last used, as a batch."""
        async with self._database.write() as connection:
            for key_id, used_at in sorted(last_uses.items()):
                await connection.execute(update(table).where(table.c.id == key_id).values(last_used_at=used_at))


def _inherit(old: ApiKey, successor: ApiKey) -> ApiKey:
    """Name, environment, limits and lifetime of the old key; id and creation time of the new one."""
    lifetime = old.expires_at and old.expires_at - old.created_at
    return replace(
        old,
        id=successor.id,
        created_at=successor.created_at,
        expires_at=successor.created_at + lifetime if lifetime else None,
        last_used_at=None,
        successor=None,
        lineage=" ".join([old.id, *old.former_ids][:MAX_LINEAGE]),
    )


def _by_id(key_id: str) -> Select[Any]:
    return select(table).where(table.c.id == key_id)


def _key_and_digest(rows: Any) -> tuple[ApiKey, bytes] | None:
    row = rows.one_or_none()
    return None if row is None else (_key(row), row.digest)


def _row(key: ApiKey, digest: bytes) -> dict[str, Any]:
    fields = asdict(key)
    rate = fields.pop("rate")
    requests, period = rate or (None, None)
    return {**fields, "digest": digest, "rate_requests": requests, "rate_period": period}


def _key(row: Row[Any]) -> ApiKey:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    fields.pop("digest")
    requests, period = fields.pop("rate_requests"), fields.pop("rate_period")
    return ApiKey(**fields, rate=None if requests is None else Rate(requests, period))
