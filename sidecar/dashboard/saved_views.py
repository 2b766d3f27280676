"""Saved views: lists of decisions by name, of one account or shared; kept in the database, so on every replica."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import parse_qsl

from aiohttp import web

from sidecar.dashboard.decision_query import filter_words, link_of, read_filter, read_sort
from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.errors import RequestError, StoreConflict
from sidecar.storage import MAX_QUERY, MAX_VIEWS, SHARED, Role, View

LONGEST_NAME = 64
PATH = "/decisions/views"
T = TypeVar("T")


class SavedViews:
    """The page of saved views. Every account has views of its own; those that all share are changed by admins."""

    def routes(self) -> list[Route]:
        """The routes of this page, which must be registered before that of a decision."""
        return [
            Route("GET", PATH, self.show),
            Route("POST", PATH, self.save),
            Route("GET", f"{PATH}/{{id}}", self.show_decisions),
            Route("POST", f"{PATH}/{{id}}/rename", self.rename),
            Route("POST", f"{PATH}/{{id}}/update", self.update),
            Route("POST", f"{PATH}/{{id}}/delete", self.delete),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All views that the account sees."""
        return await self._page(visit)

    async def _page(self, visit: Visit, error: RequestError | None = None, renamed: str = "") -> web.Response:
        names = {key.id: key.name for key in await visit.store.keys.list(visit.teams)}
        return visit.page(
            "views.html",
            error.status if error else 200,
            views=await visit.store.views.list(visit.name),
            form=visit.form,
            error=error,
            renamed=renamed,
            words=lambda query: filter_words(query, names),
            done=visit.query.text("done"),
        )

    async def show_decisions(self, visit: Visit) -> web.Response:
        """Redirects to the list: the address of a view stays the same when it is renamed."""
        return to(f"/decisions?{(await _view(visit)).query}")

    async def save(self, visit: Visit) -> web.Response:
        """Save the list of the form under a name; what is wrong with it is shown beside the form."""
        try:
            view = _new_view(visit)
            await _check_name(visit, view.name)
            added = await _unique(visit.store.views.add(view))
        except RequestError as error:
            return await self._page(visit, error)
        if not added:
            raise refused(409, f"There are {MAX_VIEWS} views already; delete one first.")
        await visit.note("view_saved", view.id, _description(view))
        return to(f"/decisions?{view.query}")

    async def rename(self, visit: Visit) -> web.Response:
        """Give a view another name; what is wrong with it is shown on the page."""
        view = await _own_view(visit)
        try:
            name = _name(visit.form)
            await _check_name(visit, name, view.id)
            await _unique(visit.store.views.rename(view.id, name))
        except RequestError as error:
            return await self._page(visit, error, renamed=view.id)
        await visit.note("view_renamed", view.id, f"{_description(view)}: now {name}")
        return to(PATH, "renamed")

    async def update(self, visit: Visit) -> web.Response:
        """Give a view the filter and the order of the list that it is updated from."""
        view = await _own_view(visit)
        query = _query(visit.form)
        await visit.store.views.change(view.id, query)
        await visit.note("view_updated", view.id, _description(view))
        return to(f"/decisions?{query}")

    async def delete(self, visit: Visit) -> web.Response:
        """Delete a view."""
        view = await _own_view(visit)
        await visit.store.views.remove(view.id)
        await visit.note("view_deleted", view.id, _description(view))
        return to(PATH, "deleted")


async def _view(visit: Visit) -> View:
    """The view that the address names. Raises `RequestError`."""
    view = await visit.store.views.get(visit.request.match_info["id"], visit.name)
    if view is None:
        raise refused(404, "There is no such view.")
    return view


async def _own_view(visit: Visit) -> View:
    """The same, if the account may change it. Raises `RequestError`."""
    view = await _view(visit)
    if view.is_shared and not visit.may(Role.ADMIN):
        raise refused(403, "Your role may look, but not do this.")
    return view


def _new_view(visit: Visit) -> View:
    form = visit.form
    if (is_shared := bool(form.text("shared"))) and not visit.may(Role.ADMIN):
        raise refused(403, "Your role may look, but not do this.")
    owner = SHARED if is_shared else visit.name
    return View(secrets.token_hex(8), owner, _name(form), _query(form), visit.name, datetime.now(UTC))


def _name(form: Form) -> str:
    if not (name := form.text("name", LONGEST_NAME)):
        raise refused(400, "Give it a name.", param="name")
    return name


async def _check_name(visit: Visit, name: str, view_id: str = "") -> None:
    """Refuse the name of another view that the account sees: two of one name cannot be told apart."""
    views = await visit.store.views.list(visit.name)
    if any(view.name.casefold() == name.casefold() and view.id != view_id for view in views):
        raise refused(409, "There is a view of this name already.", param="name")


def _query(form: Form) -> str:
    """The filter and the order of a list, checked, and written as the dashboard writes it."""
    if len(raw := form.get("query", "")) > MAX_QUERY:  # cut off, it would be another filter
        raise refused(400, f"At most {MAX_QUERY} characters of filters.", param="name")
    fields = Form(parse_qsl(raw))
    read_filter(fields), read_sort(fields)
    query = link_of(fields)
    if len(query) > MAX_QUERY:
        raise refused(400, f"At most {MAX_QUERY} characters of filters.", param="name")
    return query


async def _unique(change: Awaitable[T]) -> T:
    try:
        return await change
    except StoreConflict:
        raise refused(409, "There is a view of this name already.", param="name") from None


def _description(view: View) -> str:
    return f"{view.name} ({'shared' if view.is_shared else 'own'})"
