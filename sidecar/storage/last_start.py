"""What the settings were at the last start of any process on this database: one row, for the audit trail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select

from sidecar.storage.database import Database
from sidecar.storage.schema import last_start as table

ROW = 1


class LastStart:
    """The table of one row. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exchange(self, settings: dict[str, Any], now: datetime) -> dict[str, Any] | None:
        """Store these settings, and return those of the start before; None: it is the first.

        Of several processes that start with the same settings at once, one gets the earlier ones and the others theirs.
        """
        row = {"id": ROW, "at": now, "settings": settings}
        async with self._database.write() as connection:
            upsert = self._database.insert(table).values(row | {"settings": {}}).on_conflict_do_nothing()
            is_first = (await connection.execute(upsert)).rowcount == 1
            earlier = (await connection.execute(select(table.c.settings).with_for_update())).scalar_one()
            await connection.execute(table.update().values(row))
        return None if is_first else dict(earlier)
