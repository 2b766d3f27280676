"""One database behind one engine: opened, migrated, read and written, with every trouble as `StoreError`.

SQLite runs in WAL mode; a writer takes the lock at once (BEGIN IMMEDIATE) and waits for others, so
several processes can share the file. Its synchronous mode is FULL: a revocation that was reported
survives a power failure. PostgreSQL is reached through asyncpg, which reads the usual `libpq` options
of the URL by itself. No error text holds the password, a statement or its parameters.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import Table, event, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sidecar.errors import StoreError
from sidecar.storage import migration
from sidecar.util import json

TIMEOUT = 5.0
MIGRATION_TIMEOUT = 60.0
FEW = 8
POOL = 5
_MIGRATION_LOCK = 0x70736B5F  # any number that every replica agrees on


class Database:
    """An open database: `name` is for messages and holds no credentials, `within` bounds a transaction in seconds.

    `connect` opens a connection of the driver's own kind beside the pool, on PostgreSQL alone.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        name: str,
        within: float,
        connect: Callable[[], Coroutine[Any, Any, Any]] | None = None,
    ) -> None:
        self._engine = engine
        self._within = within
        self.name = name
        self.connect = connect

    @classmethod
    async def open(cls, url: str, within: float = TIMEOUT) -> Database:
        """Connect and migrate. Raises `StoreError` when that cannot be done."""
        remote = url.startswith(("postgresql://", "postgres://"))
        found = _postgresql(url, within) if remote else await _sqlite(url, within)
        try:
            await found.migrate()
        except BaseException:
            await found.close()
            raise
        return found

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite; else it is PostgreSQL."""
        return self._engine.dialect.name == "sqlite"

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    @asynccontextmanager
    async def read(self, within: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection for single statements that change nothing."""
        with self._translated():
            async with asyncio.timeout(within or self._within), self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def write(self, within: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that is committed at the end, or rolled back on an error."""
        with self._translated():
            async with asyncio.timeout(within or self._within), self._engine.connect() as connection:
                await connection.execution_options(writes=True)
                async with connection.begin():
                    yield connection

    async def insert_new(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, all or nothing, skipping those whose primary key is there already."""
        statement = self._insert(table).on_conflict_do_nothing()
        async with self.write() as connection:
            await connection.execute(statement, rows)

    def _insert(self, table: Table) -> Any:
        if self.is_sqlite:
            from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - of each dialect 2 MB

            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415

        return postgresql.insert(table)

    async def migrate(self) -> None:
        """Bring the tables up to date. Replicas that start together take turns."""
        async with self.write(MIGRATION_TIMEOUT) as connection:
            if self._engine.dialect.name == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
            await connection.run_sync(migration.upgrade, self.name)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise StoreError(f"{self.name} does not answer in time") from None
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"{self.name}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The driver's own words on one line, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return " ".join(str(cause).split())[:300] or type(cause).__name__


def _postgresql(url: str, within: float) -> Database:
    name = _name(url)
    try:
        import asyncpg  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise StoreError(f"{name}: install prompt-sidecar[postgres]") from None
    refused = (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError)

    async def connect(**_options: Any) -> Any:
        try:
            return await asyncpg.connect(url, timeout=within, command_timeout=MIGRATION_TIMEOUT)
        except refused as error:
            reason = _without(_reason(error), urlsplit(url).password)
            raise StoreError(f"{name}: {reason}") from None

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=POOL,
        max_overflow=POOL,
        pool_timeout=within,
        pool_pre_ping=True,
        hide_parameters=True,
        json_serializer=_json,
    )
    return Database(engine, name, within, connect)


def _json(value: object) -> str:
    """What a decision rests on: bounded, and mostly next to nothing."""
    few = isinstance(value, list) and len(value) <= FEW
    return json.dumps(value, json.SMALL if few else json.LARGE).decode()


def _name(url: str) -> str:
    try:
        parts = urlsplit(url)
        where = f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
    except ValueError:
        raise StoreError("store.url is not a URL; write it like postgresql://user@host:5432/database") from None
    return f"PostgreSQL at {where}"


def _without(message: str, password: str | None) -> str:
    """Drivers do not quote the password; should one begin to, it stops here."""
    for secret in {password, unquote(password or "")} - {None, ""}:
        message = message.replace(str(secret), "***")
    return " ".join(message.split())[:300]


async def _sqlite(url: str, within: float) -> Database:
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path.startswith(":"):
        raise StoreError("store.url must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    try:
        await asyncio.to_thread(_prepare, path, within)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"SQLite file {path}: {_reason(error)}") from None
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=path),
        connect_args={"timeout": within, "isolation_level": None},
        pool_size=POOL,
        max_overflow=POOL,
        pool_timeout=within,
        hide_parameters=True,
        json_serializer=_json,
    )
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)
    event.listen(engine.sync_engine, "invalidate", _give_up)
    return Database(engine, f"SQLite file {path}", within)


def _prepare(path: str, within: float) -> None:
    """Make the file readable for its owner alone, and switch it to WAL, which it then stays in.

    A file that is there is left alone: to close any descriptor of it drops every lock that this process holds on it
    (POSIX), and SQLite relies on them; a second `Store` in one process was enough to damage the database.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=within)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _give_up(connection: Any, _record: object, _error: object) -> None:
    """A write that was cancelled lets go of the lock now: merely closed, it is held until its cursor is collected."""
    with suppress(Exception):
        connection.rollback()


def _begin(connection: Connection) -> None:
    """Reads need no transaction; a write takes the lock before its first read, so that it never has to give up."""
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
