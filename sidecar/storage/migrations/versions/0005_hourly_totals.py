"""Hourly totals of the scan log. They begin when no replica of the former version writes rows without them."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

HOUR = 3600
HOURS_UNTIL_TOTALS = 2


def upgrade() -> None:
    """Create the table, and note the first hour with totals."""
    table = op.create_table(
        "hourly",
        sa.Column("dimension", sa.String(8), primary_key=True),
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("scans", sa.Integer, nullable=False),
        sa.Column("blocked", sa.Integer, nullable=False),
        sa.Column("recommended", sa.Integer, nullable=False),
        sa.Column("unscanned", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
    )
    zeros = dict.fromkeys(("scans", "blocked", "recommended", "unscanned", "failed"), 0)
    first = int(time.time()) // HOUR + HOURS_UNTIL_TOTALS
    op.bulk_insert(table, [{"dimension": "first", "hour": first, "name": "", **zeros}])
