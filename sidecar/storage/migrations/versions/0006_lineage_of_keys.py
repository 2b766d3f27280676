"""Which keys a key is a successor of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, and the direct predecessor of keys that are successors already."""
    op.add_column("api_keys", sa.Column("lineage", sa.String(3600)))
    op.execute(
        "UPDATE api_keys SET lineage = (SELECT MAX(old.id) FROM api_keys AS old WHERE old.successor = api_keys.id)"
    )
