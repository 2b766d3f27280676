"""An index of the hourly totals of keys, so that those of one key or of a team are read without those of all others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

OF_KEYS = "dimension = 'key'"


def upgrade() -> None:
    """Create the index, which the database fills from the totals that exist."""
    where = sa.text(OF_KEYS)
    op.create_index("hourly_of_keys", "hourly", ["name", "hour"], sqlite_where=where, postgresql_where=where)
