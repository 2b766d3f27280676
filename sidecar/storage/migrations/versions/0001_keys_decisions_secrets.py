"""The first tables: API keys, the scan log and shared secrets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    _api_keys()
    _decisions()
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
    )


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(8), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("environment", sa.String(16), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("revoked_at", _MOMENT),
        sa.Column("last_used_at", _MOMENT),
        sa.Column("rate_requests", sa.Integer),
        sa.Column("rate_period", sa.Float),
        sa.Column("burst", sa.Integer),
        sa.Column("threshold", sa.Float),
        sa.Column("mode", sa.String(16)),
        sa.Column("successor", sa.String(8)),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("route", sa.String(200), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("recommended", sa.String(16), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("risk_score", sa.Float, nullable=False),
        sa.Column("layer_used", sa.String(16), nullable=False),
        sa.Column("threats", sa.String(200), nullable=False),
        sa.Column("latency_ms", sa.Integer, nullable=False),
        sa.Column("key_id", sa.String(8)),
        sa.Column("model", sa.String(200)),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(100), nullable=False),
        sa.Column("failure", sa.String(64)),
        sa.Column("unscanned", sa.String(64)),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("findings", sa.JSON, nullable=False),
        sa.Column("layers", sa.JSON, nullable=False),
        sa.Column("text", sa.String),
        sa.Column("reasoning", sa.String),
    )
    op.create_index("decisions_by_time", "decisions", ["at", "id"])
    op.create_index("decisions_by_key", "decisions", ["key_id", "at"])
