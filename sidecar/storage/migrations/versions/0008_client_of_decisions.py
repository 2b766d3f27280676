"""The client of a decision: its address or a digest of it (`log.client`)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; earlier decisions name no client."""
    op.add_column("decisions", sa.Column("client", sa.String(64)))
