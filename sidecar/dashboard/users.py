"""Users: accounts and their roles; invite, reset, change, remove."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.invitations import invite
from sidecar.errors import RequestError
from sidecar.storage import ChangeResult, Role, valid_name


class Users:
    """The account page, for admins."""

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/users", self.show, Role.ADMIN),
            Route("POST", "/users", self.invite, Role.ADMIN),
            Route("POST", "/users/{name}/role", self.change_role, Role.ADMIN),
            Route("POST", "/users/{name}/reset", self.reset, Role.ADMIN),
            Route("POST", "/users/{name}/remove", self.remove, Role.ADMIN),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All accounts and open invitations."""
        return await self._page(visit)

    async def _page(self, visit: Visit, error: RequestError | None = None, link: str | None = None) -> web.Response:
        values = {
            "users": await visit.store.admins.list(),
            "invited": await visit.store.admins.invited(datetime.now(UTC)),
            "link": link,
            "error": error,
            "done": visit.query.text("done"),
        }
        return visit.page("users.html", error.status if error else 200, **values)

    async def invite(self, visit: Visit) -> web.Response:
        """Create a one-time link for a new user, shown once."""
        name = visit.form.text("name").lower()
        try:
            role = Role(visit.form.choice("role", list(Role)) or Role.VIEWER)
            if not valid_name(name):
                raise refused(400, "A name has 1 to 64 lower-case letters, digits or any of . _ - + @", param="name")
            if await visit.store.admins.get(name):
                raise refused(400, "There is such an account already; reset its password instead.", param="name")
        except RequestError as error:
            return await self._page(visit, error)
        return await self._link(visit, name, role, "user_invited")

    async def reset(self, visit: Visit) -> web.Response:
        """Create a one-time link to reset a password; the old password is valid until the link is used."""
        admin = await visit.store.admins.get(_target(visit))
        if admin is None:
            raise _unknown()
        return await self._link(visit, admin.name, admin.role, "user_reset")

    async def _link(self, visit: Visit, name: str, role: Role, action: str) -> web.Response:
        path = await invite(visit.store, name, role, visit.name)
        await visit.note(action, name, str(role))
        return await self._page(visit, link=visit.base + path)

    async def change_role(self, visit: Visit) -> web.Response:
        """Change an account's role, from the next request on."""
        role = Role(visit.form.choice("role", list(Role)) or Role.VIEWER)
        outcome = await visit.store.admins.set_role(_target(visit), role)
        return await self._changed(visit, outcome, "user_role_changed", str(role))

    async def remove(self, visit: Visit) -> web.Response:
        """Remove an account and its access."""
        return await self._changed(visit, await visit.store.admins.remove(_target(visit)), "user_removed", "")

    async def _changed(self, visit: Visit, outcome: ChangeResult, action: str, detail: str) -> web.Response:
        if outcome is ChangeResult.UNKNOWN:
            raise _unknown()
        if outcome is ChangeResult.LAST_ADMIN:
            return await self._page(visit, refused(400, "One admin must remain."))
        await visit.note(action, _target(visit), detail)
        return to("/users", action)


def _target(visit: Visit) -> str:
    return visit.request.match_info["name"]


def _unknown() -> RequestError:
    return refused(404, "There is no such account.")
