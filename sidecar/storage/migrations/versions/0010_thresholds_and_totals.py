"""The threshold of a decision, and totals that count prompts of which nothing was scanned as scans.

The totals counted them as other requests. They begin again when no replica of the former version writes them.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

HOUR = 3600
HOURS_UNTIL_TOTALS = 2


def upgrade() -> None:
    """Add the column; empty the totals, and note their first hour."""
    op.add_column("decisions", sa.Column("threshold", sa.Float()))
    first = int(time.time()) // HOUR + HOURS_UNTIL_TOTALS
    op.execute("DELETE FROM hourly")
    op.execute(f"INSERT INTO hourly VALUES ('first', {first}, '', 0, 0, 0, 0, 0)")  # noqa: S608 - a number
