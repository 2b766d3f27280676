"""The pinned tools of MCP servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "mcp_pins",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("tool", sa.String(200), primary_key=True),
        sa.Column("digest", sa.String(64)),
        sa.Column("latest", sa.String(64)),
        sa.Column("pinned_at", _MOMENT, nullable=False),
        sa.Column("changed_at", _MOMENT),
    )
