"""Brings the tables up to date, on the connection and in the transaction that it is given.

A new database gets the tables as the schema has them; one that an older version has made is migrated. That both
come to the same is tested. Alembic is loaded for a migration alone.
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
    """Nothing, where nothing is to be done. Raises `StoreError`."""
    tables, newest = inspect(connection).get_table_names(), _newest()
    if not tables:
        schema.metadata.create_all(connection)
        _VERSIONS.create(connection)
        connection.execute(_VERSIONS.insert().values(version_num=newest))
    elif _VERSIONS.name not in tables or connection.scalar(select(_VERSION)) != newest:
        migrate(connection, name)


def _newest() -> str:
    """The version that the migrations lead to; their files are numbered."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def migrate(connection: Connection, name: str) -> None:
    """All migrations that are still to be made. Raises `StoreError` for a version that is not known."""
    from alembic import command  # noqa: PLC0415 - 11 MB and 0.2 s
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"{name} cannot be migrated; was it written by a newer version? ({error})") from None
