"""Exceptions from rules: for one rule, one text, one key or all keys, with an expiry, a reason and an author.

A text is stored as its digest only (`sidecar.scan.exceptions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, literal_column, or_, select, true, update

from sidecar.storage.database import Database
from sidecar.storage.decision_filter import is_excepted, json_items, json_member
from sidecar.storage.schema import decisions
from sidecar.storage.schema import exceptions as table
from sidecar.storage.teams import of_teams

MAX_OF_DECISION = 100
_MARK = (
    func.coalesce(table.c.decision, table.c.id),
    table.c.author,
    table.c.reason,
    func.coalesce(table.c.key_id, literal_column("''")),
)


@dataclass(frozen=True, slots=True)
class RuleException:
    """An exception. `key_id` None: for every caller; `decision` is the one that was marked as wrong."""

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

    def is_valid(self, now: datetime) -> bool:
        """Whether it applies at `now`."""
        return self.revoked_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class Marks:
    """What a rule costs in false positives: exceptions made, and decisions that were marked for them."""

    exceptions: int = 0
    decisions: int = 0


class Exceptions:
    """The table of exceptions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, exception: RuleException) -> None:
        """Store an exception."""
        async with self._database.write() as connection:
            await connection.execute(table.insert(), asdict(exception))

    async def query(
        self, limit: int = 1000, *, offset: int = 0, rule: str = "", teams: Sequence[str] | None = None
    ) -> list[RuleException]:
        """All exceptions, or those of a rule or for keys of these teams, also revoked ones, the newest first."""
        newest = select(table).where(*_of(rule, teams)).order_by(table.c.created_at.desc(), table.c.id)
        return await self._select(newest.offset(offset).limit(limit))

    async def count(self, rule: str = "", *, teams: Sequence[str] | None = None) -> int:
        """How many there are in all, or of a rule, or for keys of these teams."""
        number = select(func.count()).select_from(table).where(*_of(rule, teams))
        async with self._database.read() as connection:
            return int(await connection.scalar(number) or 0)

    async def of_decision(self, decision_id: str) -> list[RuleException]:
        """Those that were made by marking this decision, the newest first."""
        marks = select(table).where(table.c.decision == decision_id)
        return await self._select(marks.order_by(table.c.created_at.desc(), table.c.id).limit(MAX_OF_DECISION))

    async def marks(
        self, limit: int, *, offset: int = 0, rule: str = "", teams: Sequence[str] | None = None
    ) -> list[list[RuleException]]:
        """The exceptions mark by mark, the newest first: those of one decision, author, reason and key together."""
        newest = func.max(table.c.created_at).desc()
        marks = select(*_MARK).where(*_of(rule, teams)).group_by(*_MARK).order_by(newest, _MARK[0])
        async with self._database.read() as connection:
            keys = [tuple(row) for row in await connection.execute(marks.offset(offset).limit(limit))]
            statement = select(table).where(_MARK[0].in_([key[0] for key in keys])).order_by(table.c.rule, table.c.id)
            rows = [RuleException(**row) for row in (await connection.execute(statement)).mappings()]
        by_mark: dict[tuple[str, ...], list[RuleException]] = {key: [] for key in keys}
        for row in rows:
            by_mark.get(mark_of(row), []).append(row)
        return list(by_mark.values())

    async def count_marks(self, rule: str = "", *, teams: Sequence[str] | None = None) -> int:
        """How many marks there are in all, or of a rule, or for keys of these teams."""
        marks = select(*_MARK).where(*_of(rule, teams)).distinct().subquery()
        async with self._database.read() as connection:
            return int(await connection.scalar(select(func.count()).select_from(marks)) or 0)

    async def applied(self, exceptions: Iterable[RuleException], window: int) -> dict[str, int]:
        """How often each applied among the newest `window` decisions, by its id."""
        listed = list(exceptions)
        newest = select(decisions.c.id, decisions.c.key_id, decisions.c.findings)
        recent = newest.order_by(decisions.c.at.desc(), decisions.c.id.desc()).limit(window).subquery()
        names = [json_member(name).label(name) for name in ("rule", "layer", "digest")]
        counts = select(*names, recent.c.key_id, func.count(recent.c.id.distinct()))
        is_listed = json_member("digest").in_({exception.digest for exception in listed})
        findings = counts.select_from(recent).join(json_items(recent.c.findings), true())
        statement = findings.where(is_excepted(), is_listed)
        async with self._database.read() as connection:
            rows = [tuple(row) for row in await connection.execute(statement.group_by(*names, recent.c.key_id))]
        return {exception.id: sum(row[4] for row in rows if _covers(exception, *row[:4])) for exception in listed}

    async def by_rule(self, teams: Sequence[str] | None = None) -> dict[str, Marks]:
        """The marks of each rule that has any, for keys of these teams."""
        decision = func.coalesce(table.c.decision, table.c.id)
        counts = select(table.c.rule, func.count(), func.count(decision.distinct())).where(*_of("", teams))
        async with self._database.read() as connection:
            rows = await connection.execute(counts.group_by(table.c.rule))
            return {rule: Marks(*numbers) for rule, *numbers in rows}

    async def valid(self, now: datetime, limit: int = 10_000) -> list[RuleException]:
        """The exceptions that apply at `now`, the newest first."""
        valid = select(table).where(table.c.revoked_at.is_(None), table.c.expires_at > now)
        return await self._select(valid.order_by(table.c.created_at.desc(), table.c.id).limit(limit))

    async def get(self, exception_id: str, *, teams: Sequence[str] | None = None) -> RuleException | None:
        """One exception, if it is for a key of these teams."""
        conditions = (table.c.id == exception_id, *of_teams(table.c.key_id, teams))
        rows = await self._select(select(table).where(*conditions))
        return rows[0] if rows else None

    async def revoke(self, exception_id: str, at: datetime, by: str) -> bool:
        """Revoke from `at` on. False: none that could be revoked."""
        change = update(table).where(table.c.id == exception_id, table.c.revoked_at.is_(None))
        async with self._database.write() as connection:
            return (await connection.execute(change.values(revoked_at=at, revoked_by=by))).rowcount > 0

    async def purge(self, older_than: datetime) -> int:
        """Delete exceptions that ended before that time; returns how many."""
        expired = or_(table.c.expires_at < older_than, table.c.revoked_at < older_than)
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(expired))).rowcount

    async def _select(self, statement: Any) -> list[RuleException]:
        async with self._database.read() as connection:
            return [RuleException(**row) for row in (await connection.execute(statement)).mappings()]


def mark_of(exception: RuleException) -> tuple[str, str, str, str]:
    """By what the exceptions of one mark are alike."""
    return (exception.decision or exception.id, exception.author, exception.reason, exception.key_id or "")


def _covers(exception: RuleException, rule: str, layer: str, digest: str, key_id: str | None) -> bool:
    is_of_key = exception.key_id in {None, key_id}
    return is_of_key and exception.digest == digest and exception.rule in {rule, f"{layer}:*"}


def _of(rule: str, teams: Sequence[str] | None) -> list[ColumnElement[bool]]:
    return [*([table.c.rule == rule] if rule else []), *of_teams(table.c.key_id, teams)]
