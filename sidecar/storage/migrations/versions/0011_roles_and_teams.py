"""Teams of keys, users and invitations, and the identities of users that an OpenID provider knows.

Accounts keep their role: an admin of before is one still, and no viewer gets more rights by an upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the columns; without a value in them a user sees all teams, and a key belongs to none."""
    op.add_column("api_keys", sa.Column("team", sa.String(64)))
    op.add_column("invitations", sa.Column("teams", sa.String(3250)))
    op.add_column("admins", sa.Column("teams", sa.String(3250)))
    op.add_column("admins", sa.Column("subject", sa.String(1000)))
    op.create_index("admins_by_subject", "admins", ["subject"], unique=True)
