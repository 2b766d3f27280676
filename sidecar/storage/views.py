"""Saved views of the decisions: a name and the query of a list; of one account, or shared with all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, or_, select, update

from sidecar.storage.database import Database
from sidecar.storage.schema import views as table

SHARED = ""
"""The owner of a view that every account sees."""
MAX_VIEWS = 50
"""Views of one owner."""


@dataclass(frozen=True, slots=True)
class View:
    """A view. `owner`: the account that sees it, or `SHARED`; `author`: who saved it."""

    id: str
    owner: str
    name: str
    query: str
    author: str
    created_at: datetime

    @property
    def is_shared(self) -> bool:
        """Whether every account sees it."""
        return self.owner == SHARED


class Views:
    """The table of views. An owner has each name once. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, account: str) -> list[View]:
        """Those that the account sees, by name."""
        visible = select(table).where(_seen_by(account)).order_by(table.c.name, table.c.id)
        async with self._database.read() as connection:
            return [View(**row) for row in (await connection.execute(visible)).mappings()]

    async def get(self, view_id: str, account: str) -> View | None:
        """One of them."""
        statement = select(table).where(table.c.id == view_id, _seen_by(account))
        async with self._database.read() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return None if row is None else View(**row)

    async def add(self, view: View) -> bool:
        """Save it. False: its owner has `MAX_VIEWS`. Raises `StoreConflict` if the owner has one of that name."""
        number = select(func.count()).select_from(table).where(table.c.owner == view.owner)
        async with self._database.write() as connection:
            if int(await connection.scalar(number) or 0) >= MAX_VIEWS:
                return False
            await connection.execute(table.insert(), asdict(view))
            return True

    async def rename(self, view_id: str, name: str) -> None:
        """Give it another name. Raises `StoreConflict` if its owner has one of that name."""
        async with self._database.write() as connection:
            await connection.execute(update(table).where(table.c.id == view_id).values(name=name))

    async def change(self, view_id: str, query: str) -> None:
        """Give it another filter."""
        async with self._database.write() as connection:
            await connection.execute(update(table).where(table.c.id == view_id).values(query=query))

    async def remove(self, view_id: str) -> None:
        """Delete it."""
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(table.c.id == view_id))


def _seen_by(account: str) -> ColumnElement[bool]:
    return or_(table.c.owner == SHARED, table.c.owner == account)
