"""Tests of migrations: new tables equal migrated ones, and a current database is not migrated."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection
from support import ONE_RULE, SidecarProcess

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.errors import StoreError
from sidecar.storage import ApiKey, Store
from sidecar.storage.migration import _versions, migrate
from sidecar.storage.schema import metadata

ROOT = Path(__file__).parent.parent.parent
NEWER = (
    "CREATE TABLE labels (name VARCHAR(64) NOT NULL)",
    "ALTER TABLE decisions ADD COLUMN region VARCHAR(64)",
    "ALTER TABLE api_keys ADD COLUMN weight INTEGER NOT NULL DEFAULT 1",
    "UPDATE alembic_version SET version_num = '9001'",
)
"""Statements of a version that is yet to come, which only add."""
AFTER_0010 = (
    "DROP INDEX admins_by_subject",
    "ALTER TABLE admins DROP COLUMN subject",
    "ALTER TABLE admins DROP COLUMN teams",
    "ALTER TABLE invitations DROP COLUMN teams",
    "ALTER TABLE api_keys DROP COLUMN team",
    "ALTER TABLE api_keys DROP COLUMN profile",
    "DROP TABLE checkpoints",
    "DROP INDEX hourly_of_keys",
    "ALTER TABLE hourly DROP COLUMN microseconds",
    "DROP TABLE views",
    "DROP TABLE last_start",
    "DROP TABLE refusals",
    "ALTER TABLE decisions DROP COLUMN setting",
    "ALTER TABLE decisions DROP COLUMN replaced",
    "DROP INDEX exceptions_by_decision",
)
"""Statements that undo the newest migrations."""
OPEN = """
import asyncio, sys
from sidecar.storage import ApiKey, Store
async def main():
    store = await Store.open(sys.argv[1])
    await store.close()
asyncio.run(main())
print("alembic" in sys.modules)
"""


def opened(url: str) -> bool:
    """Open a store in a process of its own; returns whether alembic was loaded."""
    return subprocess.check_output([sys.executable, "-c", OPEN, url], text=True).strip() == "True"


def described(connection: Connection) -> dict[str, object]:
    """The database's own description of its tables."""
    output = inspect(connection)
    return {
        name: (
            [{**column, "type": str(column["type"])} for column in output.get_columns(name)],
            output.get_pk_constraint(name),
            sorted(map(str, output.get_foreign_keys(name))),
            sorted(str(_printable(index)) for index in output.get_indexes(name)),
            sorted(map(str, output.get_unique_constraints(name))),
        )
        for name in sorted(output.get_table_names())
    }


def _printable(index: Any) -> dict[str, Any]:
    """An index with the text of its condition."""
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


def rebuilt(connection: Connection) -> None:
    """Drop the tables and rebuild them by running all migrations."""
    metadata.drop_all(connection)
    connection.execute(text("DELETE FROM alembic_version"))
    migrate(connection, "test")


async def test_new_tables_equal_migrated_ones(store: Store) -> None:
    """Columns, types, defaults, keys, indexes, and the version."""
    async with store._database.write() as connection:
        tables = await connection.run_sync(described)
        version = (await connection.execute(text("SELECT * FROM alembic_version"))).all()
        await connection.run_sync(rebuilt)
        assert await connection.run_sync(described) == tables
        assert (await connection.execute(text("SELECT * FROM alembic_version"))).all() == version
    assert {*metadata.tables, "alembic_version"} == set(tables)


async def test_an_older_database_is_migrated(store_url: str) -> None:
    """The newest tables and columns are missing: they are created, once, and a successor learns its predecessor."""
    store = await Store.open(store_url)
    now = datetime.now(UTC)
    await store.keys.add(ApiKey("k1111111", "shop", "production", now, successor="k2222222"), b"1" * 32)
    await store.keys.add(ApiKey("k2222222", "shop", "production", now), b"2" * 32)
    async with store._database.write() as connection:
        for statement in AFTER_0010:
            await connection.execute(text(statement))
        for table in ("disagreements", "exceptions", "hourly", "mcp_pins"):
            await connection.execute(text(f"DROP TABLE {table}"))
        await connection.execute(text("ALTER TABLE decisions DROP COLUMN client"))
        await connection.execute(text("ALTER TABLE api_keys DROP COLUMN rules"))
        await connection.execute(text("DROP INDEX decisions_flagged"))
        await connection.execute(text("ALTER TABLE decisions DROP COLUMN request"))
        await connection.execute(text("ALTER TABLE decisions DROP COLUMN threshold"))
        await connection.execute(text("ALTER TABLE api_keys DROP COLUMN lineage"))
        await connection.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    await store.close()
    assert opened(store_url)
    assert not opened(store_url)
    second = await Store.open(store_url)
    assert await second.disagreements.count() == {}
    assert [key.former_ids for key in await second.keys.list()] == [(), ("k1111111",)]
    await second.close()


async def migrated_by_a_newer_version(store_url: str, *further: str) -> list[tuple[Any, ...]]:
    """A store that holds a key and then gets the statements of a newer version; returns what its tables are."""
    store = await Store.open(store_url)
    await store.keys.add(ApiKey("k1111111", "shop", "production", datetime.now(UTC)), b"1" * 32)
    async with store._database.write() as connection:
        for statement in (*NEWER, *further):
            await connection.execute(text(statement))
        tables = await connection.run_sync(described)
    await store.close()
    return list(tables.items())


async def test_tables_of_a_newer_version_are_used_as_they_are(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rollback: keys are read and written, nothing is migrated, and a line of the log names the revision."""
    before = await migrated_by_a_newer_version(store_url)
    store = await Store.open(store_url)
    await store.keys.add(ApiKey("k2222222", "shop", "production", datetime.now(UTC)), b"2" * 32)
    assert {key.id for key in await store.keys.list()} == {"k1111111", "k2222222"}
    async with store._database.write() as connection:
        assert list((await connection.run_sync(described)).items()) == before
        assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == "9001"
    await store.close()
    output = capsys.readouterr()
    assert "store_newer" in output.out + output.err
    assert "9001" in output.out + output.err


@pytest.mark.parametrize(
    ("statement", "obstacle"),
    [
        ("DROP TABLE views", "no table views"),
        ("ALTER TABLE api_keys DROP COLUMN profile", "no column api_keys.profile"),
        ("ALTER TABLE views RENAME COLUMN author TO creator", "no column views.author, column views.creator needs"),
    ],
)
async def test_tables_of_a_newer_version_that_miss_something_are_refused(
    store_url: str, statement: str, obstacle: str
) -> None:
    """With the name of what is in the way, and the tables stay as they are."""
    await migrated_by_a_newer_version(store_url, statement)
    with pytest.raises(StoreError, match=f"migrated to 9001 by a newer version and cannot be.*{obstacle}"):
        await Store.open(store_url)


async def test_a_process_serves_on_tables_of_a_newer_version(store_url: str, tmp_path: Path) -> None:
    """A real start after a rollback: it logs the revision and answers; with a table too few it ends with 2."""
    await migrated_by_a_newer_version(store_url)
    store = await Store.open(store_url)
    _, key = await KeyRing(store, Auth()).create("rollback")
    running = SidecarProcess(tmp_path, {**ONE_RULE, "store": {"url": store_url}})
    await asyncio.to_thread(running.start)
    scan, headers = f"{running.base}/api/v1/prompt/scan", {"X-API-Key": key}
    response = await asyncio.to_thread(httpx.post, scan, json={"prompt": "hello"}, headers=headers)
    assert response.status_code == 200
    assert await asyncio.to_thread(running.stop) == 0
    assert "store_newer" in running.output
    async with store._database.write() as connection:
        await connection.execute(text("DROP TABLE views"))
    await store.close()
    with pytest.raises(RuntimeError, match=r"ended with 2:\n[\s\S]*no table views"):
        await asyncio.to_thread(running.start)


def columns_by_migration(connection: Connection) -> list[dict[str, dict[str, object]]]:
    """The columns of each table after each migration of the chain, from the first on."""
    metadata.drop_all(connection)
    connection.execute(text("DELETE FROM alembic_version"))
    steps = []
    for version in _versions():
        migrate(connection, "test", version)
        columns = {name: table[0] for name, table in described(connection).items()}  # type: ignore[index]
        steps.append({name: {column["name"]: column for column in listed} for name, listed in columns.items()})
    return steps


async def test_migrations_only_add(store: Store) -> None:
    """No table or column goes or changes, and an older version need not fill a new column: it can be rolled back to."""
    async with store._database.write() as connection:
        steps = await connection.run_sync(columns_by_migration)
    for before, after in pairwise(steps):
        for name, columns in before.items():
            assert {column: after[name].get(column) for column in columns} == columns
            added: Any = [after[name][column] for column in after[name].keys() - columns.keys()]
            assert [each for each in added if not each["nullable"] and each["default"] is None] == []


async def test_an_index_made_before_the_upgrade_is_kept(store: Store) -> None:
    """By the statement of docs/kubernetes.md, which makes the index that the migration would."""
    guide = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    statement = guide.partition("```sql\n")[2].partition("```")[0].replace("CONCURRENTLY ", "")  # not in a transaction
    async with store._database.write() as connection:
        expected = await connection.run_sync(described)
        await connection.execute(text("DROP INDEX decisions_flagged"))
        await connection.execute(text("ALTER TABLE decisions DROP COLUMN request"))
        await connection.execute(text("ALTER TABLE decisions DROP COLUMN threshold"))
        for undo in AFTER_0010:
            await connection.execute(text(undo))
        await connection.execute(text(statement))
        await connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))
        await connection.run_sync(migrate, "test")
        assert await connection.run_sync(described) == expected


async def test_accounts_keep_their_role_and_see_all_teams_after_an_upgrade(store_url: str) -> None:
    """An admin of before is one still, a viewer gets no more rights, and a key belongs to no team."""
    store, now = await Store.open(store_url), datetime.now(UTC)
    await store.keys.add(ApiKey("k1111111", "shop", "production", now), b"1" * 32)
    async with store._database.write() as connection:
        for statement in AFTER_0010:
            await connection.execute(text(statement))
        columns = "(name, role, password, created_at) VALUES"
        for name, role in (("ada", "admin"), ("vic", "viewer")):
            await connection.execute(text(f"INSERT INTO admins {columns} ('{name}', '{role}', 'x', CURRENT_TIMESTAMP)"))
        await connection.execute(text("UPDATE alembic_version SET version_num = '0010'"))
    await store.close()
    assert opened(store_url)
    second = await Store.open(store_url)
    accounts = [(account.name, str(account.role), account.teams) for account in await second.admins.list()]
    assert accounts == [("ada", "admin", None), ("vic", "viewer", None)]
    assert [key.team for key in await second.keys.list()] == [None]
    await second.close()


@pytest.mark.parametrize("times", [2])
def test_a_new_database_needs_no_migration(tmp_path: Path, times: int) -> None:
    """Neither at the first start nor at the second is alembic loaded."""
    assert not any(opened(f"sqlite:///{tmp_path}/new.db") for _ in range(times))
