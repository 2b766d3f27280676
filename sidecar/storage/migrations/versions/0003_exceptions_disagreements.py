"""Exceptions from rules, and where a second policy set disagrees."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "exceptions",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(100), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("author", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("key_id", sa.String(8)),
        sa.Column("decision", sa.String(64)),
        sa.Column("revoked_at", _MOMENT),
        sa.Column("revoked_by", sa.String(64)),
    )
    op.create_index("exceptions_by_end", "exceptions", ["expires_at"])
    op.create_table(
        "disagreements",
        sa.Column("decision", sa.String(64), primary_key=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("key_id", sa.String(8)),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.Column("other_revision", sa.String(64), nullable=False),
        sa.Column("other_action", sa.String(16), nullable=False),
        sa.Column("other_score", sa.Float, nullable=False),
        sa.Column("other_rules", sa.JSON, nullable=False),
    )
    op.create_index("disagreements_by_time", "disagreements", ["at", "decision"])
