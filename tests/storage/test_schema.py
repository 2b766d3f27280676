"""Tests that the tables of both databases match the schema, and store hostile text."""

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
    """What alembic would change in the tables built by migrations."""
    metadata.drop_all(connection)
    connection.exec_driver_sql("DELETE FROM alembic_version")
    migrate(connection, "test")
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_migrations_build_exactly_the_tables_of_the_schema(store: Store) -> None:
    """After all migrations alembic finds no difference."""
    async with store._database.write() as connection:
        assert await connection.run_sync(differences) == []


async def test_moments_are_returned_in_utc(store: Store) -> None:
    """A time in any zone is returned as the same time in UTC, with its zone."""
    stored = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=5)))
    await store.keys.add(ApiKey("abcdefgh", "n", "staging", stored), bytes(32))
    text = await store.keys.get("abcdefgh")
    assert text is not None
    assert text[0].created_at == stored
    assert text[0].created_at.tzinfo is UTC


def test_unstorable_text_is_replaced() -> None:
    """NUL and lone surrogates are replaced, everything else stays, and length is bounded."""
    assert storable("a\x00b\ud800c<script>\u202e", 200) == "a�b?c<script>\u202e"
    assert storable("x" * 300, 200) == "x" * 200
