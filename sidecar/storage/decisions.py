"""The scan log: decisions as rows, written in batches, queried by people, purged by age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, RowMapping, delete, func, select, text

from sidecar.errors import StoreConflict
from sidecar.storage.checkpoints import Checkpoints
from sidecar.storage.database import Database
from sidecar.storage.decision_filter import Filter, bounds, columns_of, conditions, is_flagged, is_indexed, names_of
from sidecar.storage.rollups import COUNTED, HOUR, NOT_SCANNED, Hours, RollUps
from sidecar.storage.schema import FLAGGED
from sidecar.storage.schema import decisions as table

PURGE_BATCH = 1000
WINDOW = 3_500
"""Rows that one page of a filtered or sorted list looks through, however long the log is."""
Sort = Literal["at", "risk_score", "latency_ms", "length"]
Order = tuple[ColumnElement[Any], ColumnElement[Any]]


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One row of the scan log. `text` and `reasoning` are None unless prompts are stored.

    `action` is what was done, `recommended` the action of the verdict; `threats` are labels separated by spaces;
    `findings` and `layers` are plain lists for analysis. `layer_used` is `none` where no layer ran.
    `door` is the entry point, `client` the address or its digest.
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
    client: str | None = None
    request: list[dict[str, Any]] | None = None
    """The texts of the request, without their content (`sidecar.decision_log.outline`)."""
    threshold: float | None = None
    """The score from which it blocks: that of the text whose score this is; None where no layer gave one."""
    setting: str | None = None
    """The setting that refused it although no score did: `pii`."""
    replaced: int | None = None
    """Values of personal data that were replaced before the scan; None: none."""

    @property
    def decided_by(self) -> str:
        """The layer that decided, or that there was no scan: also of rows that name a layer although none ran."""
        return self.layer_used if self.layers and self.layer_used != NOT_SCANNED else "not scanned"


_COLUMNS = tuple(field.name for field in fields(DecisionRow))


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """Rows of a list. `last_row`: the id of the last row that was looked at, if the log has older ones to look at.

    `matches`: how many rows match among those that were looked at, up to the bound that was asked for.
    """

    rows: list[DecisionRow]
    last_row: str | None = None
    matches: int = 0


class Decisions:
    """The table of decisions. Every method may raise `StoreError`."""

    def __init__(self, database: Database, rollups: RollUps, checkpoints: Checkpoints) -> None:
        self._database = database
        self._rollups, self._checkpoints = rollups, checkpoints

    async def add(self, entries: Sequence[DecisionRow]) -> None:
        """Write a batch and count it, all or nothing. Existing rows are skipped, so a retry is safe."""
        try:
            await self._insert(entries)
        except StoreConflict:  # an id twice; or the commit of the first attempt succeeded, and its reply was lost
            known, first = await self._known(entries), {entry.id: entry for entry in reversed(entries)}
            await self._insert([entry for row_id, entry in first.items() if row_id not in known])

    async def _insert(self, entries: Sequence[DecisionRow]) -> None:
        if not entries:
            return
        rows = [{name: getattr(entry, name) for name in _COLUMNS} for entry in entries]
        async with self._database.write() as connection:
            await self._checkpoints.lock(connection)
            await connection.execute(table.insert(), rows)
            await self._checkpoints.seal(connection, table, rows)
            await self._rollups.add(connection, entries)

    async def _known(self, entries: Sequence[DecisionRow]) -> set[str]:
        ids = select(table.c.id).where(table.c.id.in_([entry.id for entry in entries]))
        async with self._database.read() as connection:
            return set(await connection.scalars(ids))

    async def query(self, criteria: Filter | None = None, limit: int = 100) -> list[DecisionRow]:
        """The newest matching rows, at most `limit`: first their ids, which an index may hold, then their contents."""
        criteria = criteria or Filter()
        near, order = await self._near(criteria, limit if is_indexed(criteria) else None)
        ids = select(table.c.id).where(*conditions(near), *_flagged(near)).order_by(*order).limit(limit)
        newest = select(table).where(table.c.id.in_(ids)).order_by(*order)
        async with self._database.read() as connection:
            return [_row(row, criteria) for row in (await connection.execute(newest)).mappings()]

    async def page(
        self,
        criteria: Filter,
        sort: Sort = "at",
        *,
        limit: int = 100,
        offset: int = 0,
        window: int = WINDOW,
        counted: int = 0,
    ) -> DecisionPage:
        """The first matching rows by `sort`, the highest first, among the newest `window` within time and key.

        `counted`: up to how many matches are counted.
        """
        if sort == "at" and is_indexed(criteria):
            rows_of_page = await self.query(criteria, limit)
            return DecisionPage(rows_of_page, matches=await self._count(criteria, counted) if counted else 0)
        near, order = await self._near(criteria, window)
        limits = [*bounds(near), *_flagged(near)]
        columns = (table.c[name] for name in columns_of(criteria) | {"id", "at", sort})
        newest = select(*columns).where(*limits).order_by(*order).limit(window).subquery()
        ranked = (newest.c[sort].desc(), newest.c.at.desc(), newest.c.id.desc())
        ids = (
            select(newest.c.id)
            .where(*conditions(criteria, newest.c))
            .order_by(*ranked)
            .offset(offset)
            .limit(max(limit, counted))
        )
        edge = select(table.c.id).where(*limits).order_by(*order).offset(window - 1).limit(1)
        async with self._database.read() as connection:
            matching_ids = list(await connection.scalars(ids))
            row_ids = matching_ids[:limit]
            last_row = None if len(row_ids) >= limit else await connection.scalar(edge)
            matching = select(table).where(table.c.id.in_(row_ids))
            rows = {row["id"]: _row(row, criteria) for row in (await connection.execute(matching)).mappings()}
            return DecisionPage([rows[row_id] for row_id in row_ids if row_id in rows], last_row, len(matching_ids))

    async def _count(self, criteria: Filter, most: int) -> int:
        """How many rows match, up to so many: of a filter that indexes answer."""
        near, order = await self._near(criteria, most)
        ids = select(table.c.id).where(*conditions(near), *_flagged(near)).order_by(*order).limit(most).subquery()
        async with self._database.read() as connection:
            return int(await connection.scalar(select(func.count()).select_from(ids)) or 0)

    async def _near(self, criteria: Filter, rows: int | None) -> tuple[Filter, Order]:
        """The filter and the order by which a database finds so many of the newest rows (None: any number).

        Rows of teams are found by their keys: those since the hour that the totals of scans name, which come first
        anyhow; or all, if there are fewer: then the order is written so that the index of all times does not give it.
        """
        names, order = names_of(criteria), (table.c.at.desc(), table.c.id.desc())
        if rows is None or names is None or criteria.teams is None or is_flagged(criteria):
            return criteria, order
        ends = [at for at in (criteria.until, criteria.before and criteria.before.at) if at]
        end = int(min(ends).timestamp()) // HOUR if ends else None
        first = await self._rollups.newest("key", Hours(None, end), names, rows)
        if first is None:
            return criteria, (func.coalesce(table.c.at, table.c.at).desc(), table.c.id.desc())
        since = datetime.fromtimestamp(first * HOUR, UTC)
        return (criteria if (criteria.since or since) > since else replace(criteria, since=since)), order

    async def get(self, decision_id: str, criteria: Filter | None = None) -> DecisionRow | None:
        """One row, if it lies within the time, key and teams of `criteria`."""
        limits = bounds(criteria or Filter())
        async with self._database.read() as connection:
            rows = await connection.execute(select(table).where(table.c.id == decision_id, *limits))
            row = rows.mappings().one_or_none()
            return None if row is None else _row(row, criteria)

    async def count(self, criteria: Filter | None = None) -> int:
        """The number of matching rows."""
        statement = select(func.count()).select_from(table).where(*conditions(criteria or Filter()))
        async with self._database.read() as connection:
            return int((await connection.execute(statement)).scalar_one())

    async def purge(self, older_than: datetime) -> int:
        """Delete rows older than that, in short transactions; returns how many."""
        return await self._delete(older_than)

    async def keep(self, max_rows: int) -> int:
        """Delete the oldest rows beyond `max_rows`, in short transactions; returns how many."""
        newest = select(table.c.at).order_by(table.c.at.desc()).offset(max_rows).limit(1)
        async with self._database.read() as connection:
            cutoff = (await connection.execute(newest)).scalar_one_or_none()
        return 0 if cutoff is None else await self._delete(cutoff + timedelta(microseconds=1))

    async def bytes(self) -> int | None:
        """The used size of SQLite's file, without free pages; None for other databases."""
        if not self._database.is_sqlite:
            return None
        async with self._database.read() as connection:
            pages, free, size = [
                int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            ]
        return (pages - free) * size

    async def _delete(self, horizon: datetime) -> int:
        """Delete the rows before the horizon."""
        oldest = select(table.c.id).where(table.c.at < horizon).limit(PURGE_BATCH)
        statement = delete(table).where(table.c.id.in_(oldest)).returning(*(table.c[name] for name in COUNTED))
        total = 0
        while True:
            async with self._database.write() as connection:
                await self._checkpoints.lock(connection)
                deleted: list[Any] = list(await connection.execute(statement))
                if deleted:
                    await self._checkpoints.prune(connection, table, horizon, len(deleted))
                await self._rollups.add(connection, deleted, -1)
            total += len(deleted)
            if len(deleted) < PURGE_BATCH:
                return total


def _row(values: RowMapping, criteria: Filter | None) -> DecisionRow:
    row = DecisionRow(**values)
    return replace(row, text=None, reasoning=None) if criteria and criteria.text_hidden else row


def _flagged(criteria: Filter) -> list[Any]:
    """The condition of the index of flagged rows, if only those can match.

    As text: SQLite uses a partial index only for a condition that is written like that of the index.
    """
    return [text(f"({FLAGGED})")] if is_flagged(criteria) else []
