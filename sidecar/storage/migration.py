"""Migrates the tables, on a given connection and in its transaction.

A new database gets the tables of the schema; an older one is migrated. A test checks that both give the same result.
Alembic is only loaded for a migration. Migrations only add, which a test checks, so that an older version can use the
tables of a newer one: it compares them with those that it needs, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Column, Inspector, MetaData, PrimaryKeyConstraint, String, Table, inspect, select
from sqlalchemy.engine import Connection

from sidecar.errors import StoreError
from sidecar.storage import schema
from sidecar.util import logs

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = Column("version_num", String(32), nullable=False)
_VERSIONS = Table("alembic_version", MetaData(), _VERSION, PrimaryKeyConstraint(_VERSION, name="alembic_version_pkc"))
_log = logs.get("storage")


def upgrade(connection: Connection, name: str) -> None:
    """Create or migrate the tables if necessary. Raises `StoreError`.

    Tables that a newer version has migrated stay as they are, if nothing is missing in them.
    """
    inspector, versions = inspect(connection), _versions()
    tables = inspector.get_table_names()
    if not tables:
        schema.metadata.create_all(connection)
        _VERSIONS.create(connection)
        connection.execute(_VERSIONS.insert().values(version_num=versions[-1]))
        return
    version = connection.scalar(select(_VERSION)) if _VERSIONS.name in tables else None
    if version is not None and version not in versions:
        _check_newer(inspector, name, version)
    elif version != versions[-1]:
        migrate(connection, name)


def _versions() -> list[str]:
    """All versions that there are migrations to, the latest at the end; their files are numbered."""
    return sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def _check_newer(inspector: Inspector, name: str, version: str) -> None:
    """Raises `StoreError` if tables of a newer version cannot be used by this one."""
    if obstacles := list(_obstacles(inspector)):
        reason = f"was migrated to {version} by a newer version and cannot be used by this one"
        raise StoreError(f"{name} {reason}: {', '.join(obstacles)}")
    _log.warning("store_newer", store=name, revision=version, newest=_versions()[-1])


def _obstacles(inspector: Inspector) -> Iterator[str]:
    """Why this version cannot use the tables: what it needs is missing, or a column that it does not fill is needed."""
    present = set(inspector.get_table_names())
    for table in schema.metadata.sorted_tables:
        if table.name not in present:
            yield f"no table {table.name}"
            continue
        columns = {column["name"]: column for column in inspector.get_columns(table.name)}
        yield from (f"no column {table.name}.{needed.name}" for needed in table.columns if needed.name not in columns)
        for added in columns.keys() - table.columns.keys():
            if not columns[added]["nullable"] and columns[added]["default"] is None:
                yield f"column {table.name}.{added} needs a value"


def migrate(connection: Connection, name: str, target: str = "head") -> None:
    """Run the pending migrations up to the version `target`. Raises `StoreError` if there is no way to it."""
    from alembic import command  # noqa: PLC0415 - 11 MB and 0.2 s
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, target)
    except CommandError as error:
        raise StoreError(f"{name} cannot be migrated ({error})") from None
