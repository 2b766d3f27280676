"""The tables of both databases are the ones the code names, and hold hostile text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.engine import Connection

from sidecar.storage import Store, storable
from sidecar.storage.keys import ApiKey
from sidecar.storage.migration import migrate
from sidecar.storage.schema import metadata


def differences(connection: Connection) -> list[object]:
    """What alembic would still change of the tables that migrations have made."""
    metadata.drop_all(connection)
    connection.exec_driver_sql("DELETE FROM alembic_version")
    migrate(connection, "test")
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_migrations_build_exactly_the_tables_of_the_schema(store: Store) -> None:
    """After all migrations alembic finds nothing to change."""
    async with store._database.write() as connection:
        assert await connection.run_sync(differences) == []


async def test_moments_come_back_in_utc(store: Store) -> None:
    """A moment given in any time zone is the same moment when read, and says that it is UTC."""
    there = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=5)))
    await store.keys.add(ApiKey("abcdefgh", "n", "staging", there), bytes(32))
    found = await store.keys.get("abcdefgh")
    assert found is not None
    assert found[0].created_at == there
    assert found[0].created_at.tzinfo is UTC


def test_text_that_databases_refuse_is_replaced() -> None:
    """NUL and lone surrogates go, everything else stays, and length is bounded."""
    assert storable("a\x00b\ud800c<script>\u202e", 200) == "a�b?c<script>\u202e"
    assert storable("x" * 300, 200) == "x" * 200
