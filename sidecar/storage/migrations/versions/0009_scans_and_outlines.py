"""Totals of scans alone, an index of the rows that people look for, and the outline of a request.

The totals counted requests that were no scans. They begin again when no replica of the former version writes them.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

HOUR = 3600
HOURS_UNTIL_TOTALS = 2
COLUMNS = ["at", "id", "threats", "action", "recommended", "failure", "unscanned", "segments", "door", "key_id"]
FLAGGED = sa.text("threats <> '' OR action <> 'allow' OR failure IS NOT NULL OR unscanned IS NOT NULL")


def upgrade() -> None:
    """Add column and index; empty the totals, and note their first hour."""
    op.add_column("decisions", sa.Column("request", sa.JSON()))
    op.create_index(
        "decisions_flagged",
        "decisions",
        COLUMNS,
        sqlite_where=FLAGGED,
        postgresql_where=FLAGGED,
        if_not_exists=True,  # docs/kubernetes.md: made before the upgrade where the table is large
    )
    first = int(time.time()) // HOUR + HOURS_UNTIL_TOTALS
    op.execute("DELETE FROM hourly")
    op.execute(f"INSERT INTO hourly VALUES ('first', {first}, '', 0, 0, 0, 0, 0)")  # noqa: S608 - a number
