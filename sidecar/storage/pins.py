"""Pinned tools of MCP servers: the digest of each definition as it was first seen, and as it was last seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, select, update

from sidecar.storage.database import Database
from sidecar.storage.schema import mcp_pins as table


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool. `digest`: the pinned definition, None for a tool that came later; `latest`: None for one that is gone."""

    server: str
    tool: str
    digest: str | None
    latest: str | None
    pinned_at: datetime
    changed_at: datetime | None = None

    @property
    def drift(self) -> str | None:
        """`added`, `changed` or `removed`; None if the definition is the pinned one."""
        if self.digest == self.latest:
            return None
        return "added" if self.digest is None else "removed" if self.latest is None else "changed"


def state_of(pins: Iterable[Pin]) -> str:
    """A digest of the latest definitions of these tools, by which a later change is noticed."""
    latest = sorted((pin.server, pin.tool, pin.latest or "") for pin in pins)
    return hashlib.sha256(json.dumps(latest).encode()).hexdigest()


class Pins:
    """The table of pinned tools. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def query(self, server: str | None = None, tool: str | None = None) -> list[Pin]:
        """The tools of one server, or of all, by name; or one tool."""
        rows = select(table).order_by(table.c.server, table.c.tool)
        if server is not None:
            rows = rows.where(table.c.server == server)
        if tool is not None:
            rows = rows.where(table.c.tool == tool)
        async with self._database.read() as connection:
            return [Pin(**row) for row in (await connection.execute(rows)).mappings()]

    async def add(self, pins: Sequence[Pin]) -> None:
        """Store new tools; those that exist are left as they are."""
        if pins:
            await self._database.insert_new(table, [asdict(pin) for pin in pins])

    async def see(self, server: str, latest: Mapping[str, str | None], at: datetime) -> None:
        """Note the latest definitions of tools, None for those that are gone."""
        if not latest:
            return
        row = (table.c.server == server) & (table.c.tool == bindparam("of_tool"))
        statement = update(table).where(row).values(latest=bindparam("seen"), changed_at=at)
        rows = [{"of_tool": tool, "seen": digest} for tool, digest in latest.items()]
        async with self._database.write() as connection:
            await connection.execute(statement, rows)

    async def accept(self, server: str, tool: str | None, at: datetime, *, seen: str | None = None) -> int:
        """Pin the latest definitions of a server, or of one of its tools; returns how many changed.

        `seen`: their `state_of` when they were looked at; if they have changed since, none is pinned.
        """
        rows = table.c.server == server if tool is None else (table.c.server == server) & (table.c.tool == tool)
        removal = delete(table).where(rows, table.c.latest.is_(None))
        drifted = table.c.digest.is_(None) | (table.c.digest != table.c.latest)
        pin = update(table).where(rows, drifted).values(digest=table.c.latest, pinned_at=at, changed_at=None)
        async with self._database.write() as connection:
            found = await connection.execute(select(table).where(rows).with_for_update())
            pins = [Pin(**row) for row in found.mappings()]
            if seen is not None and seen != state_of(pins):
                return 0
            looked_at = table.c.tool.in_([pin.tool for pin in pins])  # another process may have added one meanwhile
            removed = await connection.execute(removal.where(looked_at))
            return removed.rowcount + (await connection.execute(pin.where(looked_at))).rowcount

    async def forget(self, server: str) -> int:
        """Delete the tools of a server, so that its next list is pinned; returns how many there were."""
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(table.c.server == server))).rowcount
