"""Requests over a limit, by key and hour; why a decision was made; an index of the exceptions of a decision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the table, which is empty at first; add the columns, and the index."""
    op.add_column("decisions", sa.Column("setting", sa.String(16)))
    op.add_column("decisions", sa.Column("replaced", sa.Integer()))
    op.create_table(
        "refusals",
        sa.Column("key_id", sa.String(8), primary_key=True),
        sa.Column("hour", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("cause", sa.String(8), primary_key=True),
        sa.Column("requests", sa.BigInteger(), nullable=False),
    )
    op.create_index("refusals_by_hour", "refusals", ["hour"])
    op.create_index("exceptions_by_decision", "exceptions", ["decision"])
