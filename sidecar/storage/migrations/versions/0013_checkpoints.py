"""Signed checkpoints over the scan log and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Create the table; rows written before have no checkpoint."""
    op.create_table(
        "checkpoints",
        sa.Column("chain", sa.String(16), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("key", sa.String(16), nullable=False),
        sa.Column("signature", sa.String(128), nullable=False),
    )
