"""What alembic runs to migrate: on the connection, and in the transaction, that the store hands over."""

from __future__ import annotations

from alembic import context

from sidecar.storage.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
