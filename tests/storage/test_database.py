"""Tests that databases open, migrate, share, fail and recover as promised."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
import servers
from sqlalchemy import text
from support import outcomes

from sidecar.errors import StoreError, StoreUnavailable
from sidecar.storage import Store
from sidecar.storage.database import Database

OPEN = "import asyncio, sys; from sidecar.storage import Store; asyncio.run(Store.open(sys.argv[1]))"


def run(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A child process with that program."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=-1, stderr=-1, stdin=-1)


def modes(folder: Path) -> dict[str, int]:
    """The files of a folder with their permissions."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def refusal(url: str) -> str:
    """The message of a failed open."""
    with pytest.raises(StoreError) as caught:
        await Database.open(url, time_limit=1.0)
    return str(caught.value)


async def test_a_database_can_be_reopened(store_url: str) -> None:
    """Opening a second time changes and loses nothing."""
    first = await Store.open(store_url)
    await first.secrets.current("x", datetime.now(UTC), timedelta(days=1))
    await first.close()
    second = await Store.open(store_url)
    assert (await second.secrets.current("x", datetime.now(UTC), timedelta(days=1))).generation == 1
    await second.close()


def test_replicas_can_start_together(store_url: str) -> None:
    """Four processes that migrate an empty database at the same moment all succeed."""
    code = "import sys; from sidecar.storage import Store; import asyncio\nsys.stdin.read()\n" + OPEN
    started = [run(code, store_url) for _ in range(4)]
    results = outcomes(started)
    assert [(child.returncode, errors) for child, (_, errors) in zip(started, results, strict=True)] == [(0, b"")] * 4


async def test_a_failed_write_is_rolled_back(store: Store) -> None:
    """A transaction that ends in an error leaves no changes."""

    async def fail() -> None:
        async with store._database.write() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = 'gone'"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with store._database.read() as connection:
        assert (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one() != "gone"


async def test_statements_that_fail_are_store_errors_without_their_parameters(store: Store) -> None:
    """The message has the database and the driver's reason, never the values."""
    with pytest.raises(StoreError) as caught:
        async with store._database.read() as connection:
            await connection.execute(text("SELECT * FROM nowhere WHERE a = :a"), {"a": "canary-4711"})
    assert "nowhere" in str(caught.value)
    assert "canary-4711" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["", "mysql://h/d", "sqlite://", "sqlite:///", "sqlite:///:memory:", "x.db"])
async def test_other_urls_are_rejected_with_an_example(url: str) -> None:
    """The message shows the correct form."""
    assert "sqlite:///FILE" in await refusal(url)


async def test_a_sqlite_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """A missing folder, a folder, and a file that is not a database."""
    (tmp_path / "text").write_text("this is no database, just a long enough text" * 100)
    for name in ("missing/store.db", "", "text"):
        assert str(tmp_path) in await refusal(f"sqlite:///{tmp_path}/{name}")


async def test_a_sqlite_file_is_private_to_its_owner(tmp_path: Path) -> None:
    """Other users of the machine cannot read digests, or prompts where they are stored."""
    store = await Store.open(f"sqlite:///{tmp_path}/100% new.db")
    await store.secrets.current("x", datetime.now(UTC), timedelta(days=1))
    assert modes(tmp_path) == {"100% new.db": 0o600, "100% new.db-wal": 0o600, "100% new.db-shm": 0o600}
    await store.close()


async def test_a_busy_sqlite_file_is_an_error_in_time(tmp_path: Path) -> None:
    """While another process holds the write lock writes time out and reads work; afterwards both work."""
    path = tmp_path / "store.db"
    database = await Database.open(f"sqlite:///{path}", time_limit=0.5)
    other_process = sqlite3.connect(path, isolation_level=None)
    other_process.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"in time|locked"):
        async with database.write():
            pass
    async with database.read() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM api_keys"))).scalar_one() == 0
    other_process.execute("ROLLBACK")
    other_process.close()
    async with database.write() as connection:
        await connection.execute(text("DELETE FROM api_keys"))
    await database.close()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_file_that_is_locked_for_a_moment_is_opened(tmp_path: Path) -> None:
    """Another process switches it to WAL at the same time, for which SQLite's own timeout does not wait."""
    path = tmp_path / "log.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("CREATE TABLE other (id INTEGER)")
    holder.execute("BEGIN EXCLUSIVE")
    asyncio.get_running_loop().call_later(0.3, holder.rollback)
    database = await Database.open(f"sqlite:///{path}")
    await database.close()
    holder.close()


async def test_messages_about_postgresql_hold_no_password(postgres: servers.PostgreSql, silent_port: int) -> None:
    """Wrong password, wrong port, unreachable, silent: the message has the address, not the secret."""
    secret = "canary:4711@/%25"
    quoted = quote(secret, safe="")
    wrong = postgres.url("postgres", secret)
    closed = f"postgresql://u:{quoted}@127.0.0.1:1/d"
    silent = f"postgresql://u:{quoted}@127.0.0.1:{silent_port}/d"
    output = [await refusal(url) for url in (wrong, closed, silent, f"postgresql://u:{quoted}@h:notaport/d")]
    assert not [words for words in output if "canary" in words or "4711" in words]
    assert f"127.0.0.1:{postgres.port}/postgres: password authentication failed" in output[0]


async def test_postgresql_recovers_after_a_restart() -> None:
    """While the server is down there are errors, afterwards the same store works again."""
    with servers.postgresql() as server:
        database = await Database.open(server.new_database())
        server.stop()
        with pytest.raises(StoreError):
            async with database.read():
                pass
        await asyncio.to_thread(server.start)
        async with database.read() as connection:
            assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
        await database.close()


async def test_a_slow_statement_times_out(postgres: servers.PostgreSql) -> None:
    """It is cancelled, and the store keeps working."""
    database = await Database.open(postgres.new_database())
    with pytest.raises(StoreError, match="in time"):
        async with database.read(time_limit=0.2) as connection:
            await connection.execute(text("SELECT pg_sleep(30)"))
    async with database.read() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    await database.close()


WRITE_AND_WAIT = """
import asyncio, sys
from datetime import UTC, datetime
from sidecar.storage import ApiKey, Store

async def main():
    store = await Store.open(sys.argv[1])
    for number in range(10_000):
        key = ApiKey(f"{number:08}", "name", "staging", datetime.now(UTC))
        await store.keys.add(key, bytes(32))
        print(key.id, flush=True)

asyncio.run(main())
"""


async def test_a_killed_process_loses_no_key_and_leaves_a_clean_file(tmp_path: Path) -> None:
    """After kill -9 during writes every reported key is there and the file is intact."""
    path = tmp_path / "store.db"
    process = run(WRITE_AND_WAIT, f"sqlite:///{path}")
    assert process.stdout is not None
    reported = [await asyncio.to_thread(process.stdout.readline) for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    remaining, _ = process.communicate()
    reported += remaining.splitlines(keepends=True)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    store = await Store.open(f"sqlite:///{path}")
    rows = {key.id for key in await store.keys.list()}
    await store.close()
    assert {line.decode().strip() for line in reported if line.endswith(b"\n")} <= rows


BUSY = (
    "INSERT INTO slow SELECT count(*) FROM (WITH RECURSIVE c(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200000) SELECT x FROM c WHERE x > :row)"
)


async def test_a_cancelled_batch_releases_the_lock(tmp_path: Path) -> None:
    """The next write need not wait for garbage collection of the cancelled cursor."""
    database = await Database.open(f"sqlite:///{tmp_path}/store.db")
    async with database.write() as connection:
        await connection.execute(text("CREATE TABLE slow (x)"))
    started = asyncio.Event()

    async def batch() -> None:
        async with database.write() as connection:
            started.set()
            await connection.execute(text(BUSY), [{"row": 1}, {"row": 2}])

    gc.disable()
    try:
        writing = asyncio.ensure_future(batch())
        await started.wait()
        await asyncio.sleep(0.02)
        writing.cancel()
        process = await asyncio.gather(writing, return_exceptions=True)
        assert isinstance(process[0], asyncio.CancelledError)
        async with database.write() as connection:
            await connection.execute(text("INSERT INTO slow VALUES (1)"))
    finally:
        gc.enable()
        await database.close()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel does not list its locks")
async def test_opening_a_file_again_keeps_the_locks_of_this_process(tmp_path: Path) -> None:
    """A second store on the same file drops no lock of the first: other processes still observe them."""
    path = tmp_path / "store.db"
    first, second = await Store.open(f"sqlite:///{path}"), None
    try:
        await first.keys.list()
        locks_before = locks(path)
        second = await Store.open(f"sqlite:///{path}")
        assert locks_before
        assert locks(path) >= locks_before
    finally:
        for store in filter(None, (first, second)):
            await store.close()


def locks(path: Path) -> set[str]:
    """Advisory locks on a file, as listed by the kernel."""
    lines = Path("/proc/locks").read_text("ascii").splitlines()
    return {line.partition(": ")[2] for line in lines if f":{path.stat().st_ino} " in line}


@pytest.mark.parametrize("connections", [1, 2, 3])
async def test_the_connections_of_a_pool_are_bounded(postgres: servers.PostgreSql, connections: int) -> None:
    """Six statements at once: the server never sees more connections than the pool may have, be it one."""
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    database = await Database.open(url, connections=connections)

    async def hold() -> None:
        async with database.read() as connection:
            await connection.execute(text("SELECT pg_sleep(0.3)"))

    holding, seen = asyncio.gather(*(hold() for _ in range(6))), []
    of_ours = f"datname = '{name}' AND state = 'active' AND query LIKE 'SELECT pg_sleep%'"
    count = f"SELECT count(*) FROM pg_stat_activity WHERE {of_ours}"  # noqa: S608 - ours
    while not holding.done():
        seen.append(int(await asyncio.to_thread(postgres.sql, count)))
    await holding
    await database.close()
    assert max(seen) == connections


async def kind_of_failure(store: Store, statement: str) -> type[StoreError]:
    """The class of the error that a statement ends with."""
    with pytest.raises(StoreError) as caught:
        async with store._database.write() as connection:
            await connection.execute(text(statement))
    return type(caught.value)


async def test_a_read_opens_no_transaction(postgres: servers.PostgreSql) -> None:
    """Each statement is its own: two round trips less on a slow link. A write after it has one again."""
    database = await Database.open(postgres.new_database())
    for access, shared in ((database.read, False), (database.write, True), (database.read, False)):
        async with access() as connection:
            times = [await connection.scalar(text("SELECT now()")) for _ in range(2)]
        assert (times[0] == times[1]) is shared
    await database.close()


async def test_only_errors_that_last_are_not_called_unavailable(postgres: servers.PostgreSql) -> None:
    """Read-only, terminated and out of connections may pass; a statement that makes no sense does not."""
    url = postgres.new_database()
    database = url.rpartition("/")[2]
    store = await Store.open(url)
    assert await kind_of_failure(store, "SELECT nonsense") is StoreError
    assert await kind_of_failure(store, "SELECT pg_terminate_backend(pg_backend_pid())") is StoreUnavailable
    postgres.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    await store.close()
    assert await kind_of_failure(store, "CREATE TABLE refused (id int)") is StoreUnavailable
    assert store.problem is not None
    await store.close()


async def test_a_locked_file_may_be_free_later(tmp_path: Path) -> None:
    """A SQLite file that another process holds is unavailable; one that is no database stays unusable."""
    path = tmp_path / "store.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable):
        await Database.open(f"sqlite:///{path}", time_limit=0.3)
    holder.close()
    (tmp_path / "other.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError) as caught:
        await Database.open(f"sqlite:///{tmp_path}/other.db", time_limit=0.3)
    assert type(caught.value) is StoreError


async def test_a_file_that_is_moved_during_an_access_is_named_as_moved(tmp_path: Path) -> None:
    """SQLite says "disk I/O error" then, which tells no operator what to do."""
    path = tmp_path / "store.db"
    store = await Store.open(f"sqlite:///{path}")

    async def moved() -> None:
        async with store._database.read():
            path.rename(tmp_path / "aside.db")
            raise OSError(errno.EIO, "disk I/O error")

    with pytest.raises(StoreUnavailable, match="was moved or deleted while it is open"):
        await moved()
    assert "was moved" in (store.problem or "")
    await store.close()


async def test_a_moved_file_is_noticed_until_it_is_back(tmp_path: Path) -> None:
    """Nothing is read from or written to a file without its name, and none is created at its place."""
    path, aside = tmp_path / "store.db", tmp_path / "aside.db"
    store = await Store.open(f"sqlite:///{path}")
    path.rename(aside)
    for access in (store._database.read, store._database.write):
        with pytest.raises(StoreUnavailable, match=r"was moved or deleted while it is open \(No such file"):
            async with access():
                pass
    assert not path.exists()
    aside.rename(path)
    await store.probe()
    assert (store.problem, await store.keys.list()) == (None, [])
    await store.close()


async def test_a_file_that_was_put_at_its_place_is_not_used(tmp_path: Path) -> None:
    """A backup, or a store that a command made: the server says so instead of serving half of each."""
    path = tmp_path / "store.db"
    store = await Store.open(f"sqlite:///{path}")
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / name).rename(tmp_path / f"old-{name}")
    await (await Store.open(f"sqlite:///{path}")).close()
    await store.probe()
    assert "was replaced by another file" in (store.problem or "")
    with pytest.raises(StoreUnavailable, match="replaced"):
        await store.keys.list()
    await store.close()
