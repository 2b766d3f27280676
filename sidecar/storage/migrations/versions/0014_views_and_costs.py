"""Saved views of decisions, and the time of layers in the totals.

Totals of layers begin when no replica of the former version writes rows without them; all others stay.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

HOUR = 3600
HOURS_UNTIL_TOTALS = 2


def upgrade() -> None:
    """Create the table, add the column, and note the first hour of the new totals."""
    op.create_table(
        "views",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("query", sa.String(2_000), nullable=False),
        sa.Column("author", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("views_by_name", "views", ["owner", "name"], unique=True)
    op.add_column("hourly", sa.Column("microseconds", sa.BigInteger(), nullable=False, server_default="0"))
    first = int(time.time()) // HOUR + HOURS_UNTIL_TOTALS
    op.execute(f"INSERT INTO hourly VALUES ('1stcost', {first}, '', 1, 0, 0, 0, 0, 0)")  # noqa: S608 - a number
