"""The scan log: decisions as rows, written in batches, queried for people, purged by age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select

from sidecar.storage.database import Database
from sidecar.storage.schema import decisions as table

PURGE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One line of the scan log. `text` and `reasoning` are None unless prompts are kept.

    `action` is what was done, `recommended` what the verdict said; `threats` are labels with a space
    between them; `findings` and `layers` are plain lists for analysis.
    """

    id: str
    at: datetime
    door: str
    route: str
    action: str
    recommended: str
    status: int
    risk_score: float
    layer_used: str
    threats: str
    latency_ms: int
    key_id: str | None
    model: str | None
    length: int
    segments: int
    digest: str
    failure: str | None
    unscanned: str | None
    revision: str
    findings: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    text: str | None = None
    reasoning: str | None = None


_NAMES = tuple(field.name for field in fields(DecisionRow))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are wanted; `None` means any. `before` is the last entry of the page before."""

    since: datetime | None = None
    until: datetime | None = None
    key_id: str | None = None
    model: str | None = None
    label: str | None = None
    action: str | None = None
    layer_used: str | None = None
    before: DecisionRow | None = None


class Decisions:
    """The table of decisions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entries: Sequence[DecisionRow]) -> None:
        """Write a batch, all or nothing. An entry that is there already is skipped, so a retry is safe."""
        rows = [{name: getattr(entry, name) for name in _NAMES} for entry in entries]
        await self._database.insert_new(table, rows)

    async def query(self, wanted: Filter | None = None, limit: int = 100) -> list[DecisionRow]:
        """The newest entries that match, at most `limit`."""
        newest = select(table).where(*conditions(wanted or Filter())).order_by(table.c.at.desc(), table.c.id.desc())
        async with self._database.read() as connection:
            return [DecisionRow(**row) for row in (await connection.execute(newest.limit(limit))).mappings()]

    async def get(self, decision_id: str) -> DecisionRow | None:
        """One entry."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(table).where(table.c.id == decision_id))
            row = rows.mappings().one_or_none()
            return None if row is None else DecisionRow(**row)

    async def count(self, wanted: Filter | None = None) -> int:
        """How many entries match."""
        counted = select(func.count()).select_from(table).where(*conditions(wanted or Filter()))
        async with self._database.read() as connection:
            return int((await connection.execute(counted)).scalar_one())

    async def purge(self, older_than: datetime) -> int:
        """Delete entries from before that moment, in short transactions; returns how many."""
        return await self._delete(table.c.at < older_than)

    async def keep(self, most: int) -> int:
        """Delete the oldest entries beyond so many, in short transactions; returns how many."""
        newest = select(table.c.at).order_by(table.c.at.desc()).offset(most).limit(1)
        async with self._database.read() as connection:
            beyond = (await connection.execute(newest)).scalar_one_or_none()
        return 0 if beyond is None else await self._delete(table.c.at <= beyond)

    async def bytes(self) -> int | None:
        """What SQLite's file holds, without pages that are free again; None for another database."""
        if not self._database.is_sqlite:
            return None
        async with self._database.read() as connection:
            pages, free, size = [
                int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            ]
        return (pages - free) * size

    async def _delete(self, condition: ColumnElement[bool]) -> int:
        oldest = select(table.c.id).where(condition).limit(PURGE_BATCH)
        total = 0
        while True:
            async with self._database.write() as connection:
                gone = (await connection.execute(delete(table).where(table.c.id.in_(oldest)))).rowcount
            total += gone
            if gone < PURGE_BATCH:
                return total


def conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    """The filter as conditions on the table."""
    found: list[ColumnElement[bool]] = [
        getattr(table.c, name) == value
        for name in ("key_id", "model", "action", "layer_used")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.since is not None:
        found.append(table.c.at >= wanted.since)
    if wanted.until is not None:
        found.append(table.c.at < wanted.until)
    if wanted.label is not None:
        found.append(table.c.threats.contains(wanted.label, autoescape=True))
    if wanted.before is not None:
        at, last = wanted.before.at, wanted.before.id
        found.append(or_(table.c.at < at, and_(table.c.at == at, table.c.id < last)))
    return found
