"""API keys as rows: created, read, revoked, rotated, deleted. Knows digests, never values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict

from sqlalchemy import Row, Select, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import keys as table
from sidecar.util.units import Rate

LOOK_UP_TIMEOUT = 2.0
Mode = Literal["enforce", "monitor"]
_CHANGING = ("expires_at", "rate_requests", "rate_period", "burst", "threshold", "mode", "rules")


class KeyState(StrEnum):
    """The three conditions of the interface specification."""

    VALID = "valid"
    REVOKED = "revoked"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key beside its value. `None` in the last five means the general setting."""

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
    """What it changes of rules, as `sidecar.util.units.parse_rule_changes` reads it."""

    def state(self, now: datetime) -> KeyState:
        """Its condition at `now`, by the wall clock."""
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.VALID

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return {**asdict(self), "rate": self.rate and f"{self.rate.requests} per {self.rate.period:g} s"}


class KeyOverrides(TypedDict, total=False):
    """What a key may have of its own; `None` means the general setting."""

    rate: Rate | None
    burst: int | None
    threshold: float | None
    mode: Mode | None
    rules: str | None


class KeyChanges(KeyOverrides, total=False):
    """What may change in the life of a key; it ends never where `expires_at` is `None`."""

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
        """The key and its digest; a request waits for it, so it must come soon."""
        async with self._database.read(LOOK_UP_TIMEOUT) as connection:
            return _found(await connection.execute(_one(key_id)))

    async def list(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(table).order_by(table.c.created_at, table.c.id))
            return [_key(row) for row in rows]

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke from `at` on; a key that is revoked already stays as it is. False: there is no such key."""
        async with self._database.write() as connection:
            known = _found(await connection.execute(_one(key_id)))
            await connection.execute(
                update(table).where(table.c.id == key_id, table.c.revoked_at.is_(None)).values(revoked_at=at)
            )
        return known is not None

    async def delete(self, key_id: str) -> bool:
        """Remove the key for ever. False: there was none."""
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(table.c.id == key_id))).rowcount > 0

    async def rotate(self, key_id: str, successor: ApiKey, digest: bytes, until: datetime) -> ApiKey | None:
        """Store a successor that inherits from the key, which then expires at `until` at the latest.

        All or nothing, and only for a valid key that has no successor yet; else nothing changes and the
        answer is `None`. Of several rotations at the same moment one wins.
        """
        async with self._database.write() as connection:
            found = _found(await connection.execute(_one(key_id).with_for_update()))
            now = successor.created_at
            if found is None or found[0].successor or found[0].state(now) is not KeyState.VALID:
                return None
            heir = _inherit(found[0], successor)
            await connection.execute(table.insert(), _row(heir, digest))
            await self._retire(connection, found[0], heir.id, until)
            return heir

    async def _retire(self, connection: AsyncConnection, key: ApiKey, successor: str, until: datetime) -> None:
        expires = min(until, key.expires_at or until)
        change = update(table).where(table.c.id == key.id).values(expires_at=expires, successor=successor)
        await connection.execute(change)

    async def change(self, key_id: str, terms: KeyChanges, now: datetime) -> tuple[ApiKey, ApiKey] | None:
        """Give a key other terms; it as it was and as it is. None, and nothing changed, unless it is valid."""
        async with self._database.write() as connection:
            found = _found(await connection.execute(_one(key_id).with_for_update()))
            if found is None or found[0].state(now) is not KeyState.VALID:
                return None
            changed = replace(found[0], **terms)
            row = _row(changed, found[1])
            values = {name: row[name] for name in _CHANGING}
            await connection.execute(update(table).where(table.c.id == key_id).values(**values))
            return found[0], changed

    async def touch(self, used: Mapping[str, datetime]) -> None:
        """Note when keys were last used, many at once."""
        async with self._database.write() as connection:
            for key_id in sorted(used):
                await connection.execute(update(table).where(table.c.id == key_id).values(last_used_at=used[key_id]))


def _inherit(old: ApiKey, successor: ApiKey) -> ApiKey:
    """Name, environment, limits and length of life of the old key; identity and birth of the new one."""
    lifetime = old.expires_at and old.expires_at - old.created_at
    return replace(
        old,
        id=successor.id,
        created_at=successor.created_at,
        expires_at=successor.created_at + lifetime if lifetime else None,
        last_used_at=None,
        successor=None,
    )


def _one(key_id: str) -> Select[Any]:
    return select(table).where(table.c.id == key_id)


def _found(rows: Any) -> tuple[ApiKey, bytes] | None:
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
