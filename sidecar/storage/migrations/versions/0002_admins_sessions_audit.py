"""People of the dashboard: accounts, one-time invitations, sessions and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "admins",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("password", sa.String(200), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("last_login_at", _MOMENT),
    )
    op.create_table(
        "invitations",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("name", sa.String(64)),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("name", sa.String(64), sa.ForeignKey("admins.name", ondelete="CASCADE"), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("used_at", _MOMENT, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
    )
    op.create_index("sessions_by_name", "sessions", ["name"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("detail", sa.String(500), nullable=False),
    )
