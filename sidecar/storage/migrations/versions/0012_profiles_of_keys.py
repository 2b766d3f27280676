"""The profile of a key: the named terms of the settings that its requests have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column; earlier keys have none."""
    op.add_column("api_keys", sa.Column("profile", sa.String(48)))
