"""Migrates the tables, on a given connection and in its transaction.

A new database gets the tables of the schema; an older one is migrated. A test checks that both give the same result.
Alembic is only loaded for a migration.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select
from sqlalchemy.engine import Connection

from sidecar.errors import StoreError
from sidecar.storage import schema

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = Column("version_num", String(32), nullable=False)
_VERSIONS = Table("alembic_version", MetaData(), _VERSION, PrimaryKeyConstraint(_VERSION, name="alembic_version_pkc"))


def upgrade(connection: Connection, name: str) -> None:
    """Create or migrate the tables if necessary. Raises `StoreError`."""
    tables, latest = inspect(connection).get_table_names(), _latest_version()
    if not tables:
        schema.metadata.create_all(connection)
        _VERSIONS.create(connection)
        connection.execute(_VERSIONS.insert().values(version_num=latest))
    elif _VERSIONS.name not in tables or connection.scalar(select(_VERSION)) != latest:
        migrate(connection, name)


def _latest_version() -> str:
    """The version that the migrations lead to; their files are numbered."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def migrate(connection: Connection, name: str) -> None:
    """Run all pending migrations. Raises `StoreError` for an unknown version."""
    from alembic import command  # noqa: PLC0415 - 11 MB and 0.2 s
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"{name} cannot be migrated; was it written by a newer version? ({error})") from None
