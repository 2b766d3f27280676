"""One database behind one engine: opened, migrated, read and written; every failure is a `StoreError`.

SQLite runs in WAL mode; a writer takes the lock at once (BEGIN IMMEDIATE) and waits for others, so several processes
can share the file. Its synchronous mode is FULL: a reported revocation survives a power failure. PostgreSQL is accessed
through asyncpg, which parses the usual `libpq` options of the URL. No error text contains the password, a statement or
its parameters.

A SQLite file that was moved, deleted or replaced would still take what is written through the open connections, and a
new connection would create another file. So each access first compares the file at the path with the one that was
opened, by `stat` alone (see `_prepare` for why nothing may open it): until they are the same again the store is away.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import Table, event, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sidecar.errors import StoreConflict, StoreError, StoreUnavailable, needs_extra
from sidecar.storage import migration
from sidecar.util import json

TIMEOUT = 5.0
WAL_RETRY = 0.05
MIGRATION_TIMEOUT = 60.0
SMALL_LIST = 8
CONNECTIONS = 10
"""Connections of a pool at most; half of them are kept open."""
_LASTING = (ProgrammingError, DataError, NotSupportedError)
"""Errors of a statement or of a permission. All others may pass: read-only, full, shutting down, no connection left."""
_MIGRATION_LOCK = 0x70736B5F  # an arbitrary number, the same on every replica
_Identity = tuple[int, int]
"""Device and inode of a file."""


class Database:
    """An open database. `name` is for messages, without credentials; `time_limit` bounds a transaction in seconds.

    `connect` opens a driver connection outside the pool; on PostgreSQL only. `file`: that of SQLite.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        name: str,
        time_limit: float,
        connect: Callable[[], Coroutine[Any, Any, Any]] | None = None,
        file: _OpenFile | None = None,
    ) -> None:
        self._engine, self._file = engine, file
        is_postgresql = engine.dialect.name == "postgresql"
        self._reading = engine.execution_options(isolation_level="AUTOCOMMIT") if is_postgresql else engine
        """The same pool, without a transaction around each statement: two round trips less."""
        self._time_limit = time_limit
        self.name = name
        self.connect = connect
        self.problem: str | None = None
        """Why the latest access failed; None if it succeeded."""

    @classmethod
    async def open(
        cls, url: str, time_limit: float = TIMEOUT, connections: int = CONNECTIONS, *, migrated: bool = False
    ) -> Database:
        """Connect and migrate. Raises `StoreError` on failure. `connections`: the most that the pool opens.

        `migrated`: it has been migrated already; connections are opened when they are needed.
        """
        remote = url.startswith(("postgresql://", "postgres://"))
        database = _postgresql(url, time_limit, connections) if remote else await _sqlite(url, time_limit, connections)
        try:
            if not migrated:
                await database.migrate()
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    async def try_connect(cls, url: str) -> str | None:
        """Connect and change nothing; of a SQLite file only its permissions are read. Returns the problem, if any."""
        if not url.startswith(("postgresql://", "postgres://")):
            return _file_problem(Path(url.removeprefix("sqlite:///")))
        try:
            database = _postgresql(url, TIMEOUT, CONNECTIONS)
            try:
                await database.ping()
            finally:
                await database.close()
        except StoreError as error:
            return str(error)
        return None

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite; else it is PostgreSQL."""
        return self._engine.dialect.name == "sqlite"

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    @asynccontextmanager
    async def read(self, time_limit: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection for single read-only statements."""
        with self._translate_errors():
            async with asyncio.timeout(time_limit or self._time_limit), self._reading.connect() as connection:
                yield connection

    @asynccontextmanager
    async def write(self, time_limit: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction, committed at the end or rolled back on an error."""
        with self._translate_errors():
            async with asyncio.timeout(time_limit or self._time_limit), self._engine.connect() as connection:
                await connection.execution_options(writes=True)
                async with connection.begin():
                    yield connection

    async def ping(self) -> None:
        """The smallest read. Raises `StoreError` on failure."""
        async with self.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def insert_new(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, all or nothing, skipping those whose primary key exists."""
        statement = self.insert(table).on_conflict_do_nothing()
        async with self.write() as connection:
            await connection.execute(statement, rows)

    def insert(self, table: Table) -> Any:
        """An insert that can name what happens to a row that exists."""
        if self.is_sqlite:
            from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - of each dialect 2 MB

            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415

        return postgresql.insert(table)

    async def migrate(self) -> None:
        """Migrate the tables. Replicas that start at the same time take turns."""
        async with self.write(MIGRATION_TIMEOUT) as connection:
            if self._engine.dialect.name == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
            await connection.run_sync(migration.upgrade, self.name)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with self._translated():
                if self._file is not None:
                    self._file.check()
                yield
        except StoreUnavailable as error:
            cause = self._cause(error)
            self.problem = str(cause)
            raise cause from None
        self.problem = None

    def _cause(self, error: StoreUnavailable) -> StoreUnavailable:
        """That the file is gone, where it is: of a file moved during an access SQLite says "disk I/O error" only."""
        try:
            if self._file is not None:
                self._file.check()
        except StoreUnavailable as cause:
            return cause
        return error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise StoreUnavailable(f"{self.name} does not answer in time") from None
        except IntegrityError as error:
            raise StoreConflict(f"{self.name}: {_reason(error)}") from None
        except _LASTING as error:
            raise StoreError(f"{self.name}: {_reason(error)}") from None
        except (SQLAlchemyError, OSError) as error:
            raise StoreUnavailable(f"{self.name}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The driver's message on one line, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return " ".join(str(cause).split())[:300] or type(cause).__name__


def _postgresql(url: str, time_limit: float, connections: int) -> Database:
    name = _name(url)
    try:
        import asyncpg  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise StoreError(f"{name}: {needs_extra('postgres')}") from None
    connect_errors = (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError)
    lasting = (ValueError, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)

    async def connect(**_options: Any) -> Any:
        try:
            return await asyncpg.connect(url, timeout=time_limit, command_timeout=MIGRATION_TIMEOUT)
        except connect_errors as error:
            reason = _redact_password(_reason(error), urlsplit(url).password)
            kind = StoreError if isinstance(error, lasting) else StoreUnavailable
            raise kind(f"{name}: {reason}") from None

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        **_pool_bounds(connections),
        pool_timeout=time_limit,
        pool_pre_ping=True,
        hide_parameters=True,
        json_serializer=_json,
    )
    return Database(engine, name, time_limit, connect)


def _pool_bounds(connections: int) -> dict[str, int]:
    """Half of the connections stay open. A pool of size 0 would have no bound at all."""
    kept = max(1, connections // 2)
    return {"pool_size": kept, "max_overflow": connections - kept}


def _json(value: object) -> str:
    """The findings or layers of a decision: bounded, and mostly tiny."""
    is_small = isinstance(value, list) and len(value) <= SMALL_LIST
    return json.dumps(value, json.SMALL if is_small else json.LARGE).decode()


def _name(url: str) -> str:
    try:
        parts = urlsplit(url)
        address = f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
    except ValueError:
        raise StoreError("store.url is not a URL; write it like postgresql://user@host:5432/database") from None
    return f"PostgreSQL at {address}"


def _redact_password(message: str, password: str | None) -> str:
    """Remove the password, should a driver ever quote it."""
    for secret in {password, unquote(password or "")} - {None, ""}:
        message = message.replace(str(secret), "***")
    return " ".join(message.split())[:300]


def _file_name(path: str) -> str:
    """For messages: in which of several folders it is matters when a command was called in the wrong one."""
    return f"SQLite file {Path(path).absolute()}"


async def _sqlite(url: str, time_limit: float, connections: int) -> Database:
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path.startswith(":"):
        raise StoreError("store.url must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    try:
        file = _OpenFile(Path(path), await asyncio.to_thread(_prepare, path, time_limit))
    except (OSError, sqlite3.Error) as error:
        kind = StoreUnavailable if "locked" in str(error) else StoreError
        raise kind(f"SQLite file {path}: {_reason(error)}") from None
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=path),
        connect_args={"timeout": time_limit, "isolation_level": None},
        **_pool_bounds(connections),
        pool_timeout=time_limit,
        hide_parameters=True,
        json_serializer=_json,
    )
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)
    event.listen(engine.sync_engine, "invalidate", _on_invalidate)
    return Database(engine, _file_name(path), time_limit, file=file)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """The file that the connections have open, by the path that should lead to it."""

    path: Path
    identity: _Identity

    def check(self) -> None:
        """Raise `StoreUnavailable` if the path leads to no file, or to another one."""
        try:
            is_same = _identity(self.path) == self.identity
        except OSError as error:
            reason = f"was moved or deleted while it is open ({_reason(error)})"
        else:
            if is_same:
                return
            reason = "was replaced by another file while it is open"
        remedy = "put it back, or restart the server to use what is there now"
        raise StoreUnavailable(f"{_file_name(str(self.path))} {reason}; {remedy}")


def _identity(path: Path) -> _Identity:
    status = path.stat()
    return status.st_dev, status.st_ino


def _file_problem(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"SQLite file {path}: there is no such folder"
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        return f"SQLite file {path}: not writable"
    return None


def _prepare(path: str, time_limit: float) -> _Identity:
    """Make the file readable for its owner only, and switch it to WAL, which is persistent; which file it is.

    An existing file is not opened here: closing any descriptor of it would drop all locks of this process (POSIX),
    and SQLite relies on them; a second `Store` in one process was enough to corrupt the database.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection, deadline = sqlite3.connect(path, timeout=time_limit), time.monotonic() + time_limit
    try:
        while not _use_wal(connection, last=time.monotonic() >= deadline):
            time.sleep(WAL_RETRY)
        return _identity(Path(path))
    finally:
        connection.close()


def _use_wal(connection: sqlite3.Connection, *, last: bool) -> bool:
    """Whether the file is in WAL mode. SQLite does not wait for its own timeout while another process switches it."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if last or "locked" not in str(error):
            raise
        return False
    return True


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _on_invalidate(connection: Any, _record: object, _error: object) -> None:
    """Release the lock of a cancelled write at once: a merely closed connection holds it until garbage collection."""
    with suppress(Exception):
        connection.rollback()


def _begin(connection: Connection) -> None:
    """Reads need no transaction; a write takes the lock before its first read, so that it never has to restart."""
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
