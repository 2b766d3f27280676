"""Signed checkpoints over the scan log and the audit trail: a chain for each, one checkpoint for each write.

A checkpoint is added in the transaction that writes its rows, so that every row is covered from its first moment. It
names each row with a digest of its content, and the checkpoint before it by a digest; its signature covers all of this.
Replicas write one chain: on PostgreSQL they take turns by an advisory lock, on SQLite a writer is alone anyway.

Where rows are deleted by age or number, a checkpoint says so: what was older than its horizon is gone. Checkpoints all
of whose rows are gone are deleted with them, and the digest of the last one stays, so that the chain still holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Float, RowMapping, Table, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import Bounded, storable
from sidecar.storage.schema import checkpoints as table
from sidecar.util import json, logs
from sidecar.util.signatures import Signer, decode, encode

VERSION = 1
BEGUN, ROWS, PRUNED = "begun", "rows", "pruned"
START = encode(hashlib.sha256(b"prompt-sidecar checkpoints").digest())
"""What the first checkpoint of a chain follows."""
_log = logs.get("checkpoints")
_LOCK = 0x70736B63  # an arbitrary number, the same on every replica


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of a chain. `latest`: the time of its latest row in microseconds; `body`: JSON, as it was signed."""

    chain: str
    number: int
    at: datetime
    kind: str
    latest: int
    body: str
    previous: str
    key: str
    signature: str

    @property
    def message(self) -> bytes:
        """What is signed."""
        digest = encode(hashlib.sha256(self.body.encode()).digest())
        fields = (VERSION, self.chain, self.number, micros(self.at), self.kind, self.latest, digest, self.previous)
        return json.dumps([*fields, self.key], json.SMALL)

    @property
    def digest(self) -> str:
        """By which the next checkpoint names this one."""
        return encode(hashlib.sha256(self.message).digest())

    def is_signed_by(self, signer: Signer) -> bool:
        """Whether the signature is that of this key."""
        try:
            return signer.verify(self.message, decode(self.signature))
        except ValueError:
            return False


class Checkpoints:
    """The table of checkpoints. Without a signer that signs nothing is written. Methods may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.signer: Signer | None = None

    @property
    def is_on(self) -> bool:
        """Whether writes get checkpoints."""
        return self.signer is not None and self.signer.sign is not None

    async def begin(self, sources: Iterable[Table]) -> None:
        """Begin the chains of these tables, where there is none: rows that are there already are not covered."""
        for source in sources if self.is_on else ():
            async with self._database.write() as connection:
                await self.lock(connection)
                if await self._head(connection, source.name) is None:
                    count = await connection.scalar(select(func.count()).select_from(source))
                    await self._append(connection, source.name, BEGUN, micros(datetime.now(UTC)), {"count": count})
                    if count:
                        _log.warning("checkpoints_begun_over_rows", table=source.name, rows=count)

    async def lock(self, connection: AsyncConnection) -> None:
        """Take the turn of this writer until the end of the transaction; before any other lock."""
        if self.is_on and not self._database.is_sqlite:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})

    async def seal(self, connection: AsyncConnection, source: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add a checkpoint over rows that this transaction writes."""
        if not self.is_on or not rows:
            return
        entries = [(str(row["id"]), row_digest(source, row), micros(row["at"])) for row in rows]
        latest = max(entry[2] for entry in entries)
        await self._append(connection, source.name, ROWS, latest, {"rows": entries})

    async def prune(self, connection: AsyncConnection, source: Table, horizon: datetime, count: int) -> None:
        """Add a checkpoint that says that `count` rows before the horizon were deleted, and delete those of theirs."""
        if not self.is_on:
            return
        chain, before = source.name, micros(horizon)
        remaining = select(func.min(table.c.number)).where(
            table.c.chain == chain, table.c.kind == ROWS, table.c.latest >= before
        )
        newest = await self._head(connection, chain)
        first = await connection.scalar(remaining) or (newest.number + 1 if newest else 1)
        base = await self._before(connection, chain, first)
        await self._append(connection, chain, PRUNED, before, {"count": count, "first": first, "follows": base})
        await connection.execute(delete(table).where(table.c.chain == chain, table.c.number < first))

    async def page(self, chain: str, after: int, limit: int) -> list[Checkpoint]:
        """The next checkpoints after this number."""
        rows = select(table).where(table.c.chain == chain, table.c.number > after).order_by(table.c.number).limit(limit)
        async with self._database.read() as connection:
            return [_checkpoint(row) for row in (await connection.execute(rows)).mappings()]

    async def rows(self, source: Table, ids: Sequence[Any]) -> dict[str, RowMapping]:
        """The rows of a table by id."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(source).where(source.c.id.in_(ids)))
            return {str(row["id"]): row for row in rows.mappings()}

    async def ids(self, source: Table, after: Any, limit: int) -> list[tuple[Any, datetime]]:
        """The next ids of a table after this one, with the times of their rows."""
        columns = select(source.c.id, source.c.at).order_by(source.c.id).limit(limit)
        statement = columns if after is None else columns.where(source.c.id > after)
        async with self._database.read() as connection:
            return [(row.id, row.at) for row in await connection.execute(statement)]

    async def _append(
        self, connection: AsyncConnection, chain: str, kind: str, latest: int, body: Mapping[str, Any]
    ) -> None:
        if self.signer is None or self.signer.sign is None:
            return
        newest = await self._head(connection, chain)
        number, previous = (newest.number + 1, newest.digest) if newest else (1, START)
        content = json.dumps(body, json.LARGE).decode()
        unsigned = Checkpoint(
            chain, number, datetime.now(UTC), kind, latest, content, previous, self.signer.name, signature=""
        )
        signature = encode(self.signer.sign(unsigned.message))
        row = {name: getattr(unsigned, name) for name in Checkpoint.__slots__}
        await connection.execute(table.insert(), row | {"signature": signature})

    async def _head(self, connection: AsyncConnection, chain: str) -> Checkpoint | None:
        newest = select(table).where(table.c.chain == chain).order_by(table.c.number.desc()).limit(1)
        row = (await connection.execute(newest)).mappings().one_or_none()
        return None if row is None else _checkpoint(row)

    async def _before(self, connection: AsyncConnection, chain: str, number: int) -> str:
        """The digest that the checkpoint with this number follows, or would follow."""
        row = select(table).where(table.c.chain == chain, table.c.number == number - 1)
        before = (await connection.execute(row)).mappings().one_or_none()
        if before is not None:
            return _checkpoint(before).digest
        follows = select(table.c.previous).where(table.c.chain == chain, table.c.number == number)
        return await connection.scalar(follows) or START


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def row_digest(source: Table, row: Mapping[Any, Any]) -> str:
    """The digest of a row's content without its id, the same before it is written and after it is read.

    Columns without a value are left out, so that rows keep their digests when a later version adds one.
    """
    columns = [column for column in source.columns if column.name != "id" and row.get(column.name) is not None]
    values = {str(column.name): _stored(column.type, row[column.name]) for column in columns}
    memory = json.SMALL if row.get("text") is None else json.LARGE
    return encode(hashlib.sha256(json.dumps(values, memory, option=json.SORTED)).digest())


def _stored(kind: Any, value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, str) and isinstance(kind, Bounded):
        return storable(value, kind.longest)
    return float(value) if isinstance(kind, Float) and value is not None else value


def _checkpoint(row: RowMapping) -> Checkpoint:
    return Checkpoint(**{name: row[name] for name in Checkpoint.__slots__})


def covered(body: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    """The rows of a checkpoint: id, digest, and time in microseconds."""
    if not isinstance(body, dict):
        raise TypeError("no object")
    return [(str(row_id), str(digest), int(at)) for row_id, digest, at in body.get("rows", ())]
