"""Users: accounts with their roles and teams; invite, reset, change, remove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.invitations import invite
from sidecar.errors import RequestError
from sidecar.storage import MAX_TEAM, MAX_TEAMS, Admin, ChangeResult, Role, Store, valid_name, valid_team

LONGEST_TEAMS = MAX_TEAMS * (MAX_TEAM + 1)


class Users:
    """The account page, for admins."""

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/users", self.show),
            Route("POST", "/users", self.invite),
            Route("POST", "/users/{name}/role", self.change_role),
            Route("POST", "/users/{name}/teams", self.change_teams),
            Route("POST", "/users/{name}/reset", self.reset),
            Route("POST", "/users/{name}/remove", self.remove),
            Route("POST", "/users/{name}/withdraw", self.withdraw),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All accounts and open invitations."""
        return await self._page(visit)

    async def _page(
        self, visit: Visit, error: RequestError | None = None, link: str | None = None, unknown: Sequence[str] = ()
    ) -> web.Response:
        invited = await visit.store.admins.invited(datetime.now(UTC))
        values = {
            "users": await visit.store.admins.list(),
            "roles": list(Role),
            "invited": {invitation.name: invitation for invitation in invited},
            "with_keys": await visit.store.keys.teams(),
            "link": link,
            "unknown": unknown,
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
            teams = read_teams(visit.form.text("teams", LONGEST_TEAMS))
            await check_invitation(visit.store, name, role, teams)
        except RequestError as error:
            return await self._page(visit, error)
        return await self._link(visit, name, role, "user_invited", teams)

    async def withdraw(self, visit: Visit) -> web.Response:
        """Make the one-time link of a name void, of an invitation or of a reset."""
        if not await visit.store.admins.withdraw(_target(visit)):
            raise refused(404, "There is no open link for this name.")
        await visit.note("invitation_withdrawn", _target(visit))
        return to("/users", "invitation_withdrawn")

    async def reset(self, visit: Visit) -> web.Response:
        """Create a one-time link to reset a password; the old password is valid until the link is used."""
        admin = await self._account(visit)
        return await self._link(visit, admin.name, admin.role, "user_reset")

    async def _account(self, visit: Visit) -> Admin:
        """The account of the address, if it is kept here and not at a provider. Raises `RequestError`."""
        admin = await visit.store.admins.get(_target(visit))
        if admin is None:
            raise refused(404, "There is no such account.")
        if admin.subject is not None:
            raise refused(400, "Role, teams and password of this user are kept at the OpenID provider.")
        return admin

    async def _link(
        self, visit: Visit, name: str, role: Role, action: str, teams: tuple[str, ...] | None = None
    ) -> web.Response:
        path = await invite(visit.store, name, role, visit.name, teams)
        await visit.note(action, name, describe(role, teams))
        visit.form.clear()
        return await self._page(visit, link=visit.base + path, unknown=await without_keys(visit.store, teams))

    async def change_role(self, visit: Visit) -> web.Response:
        """Change an account's role, from the next request on."""
        role = Role(visit.form.choice("role", list(Role)) or Role.VIEWER)
        before = (await self._account(visit)).role
        outcome = await visit.store.admins.set_role(_target(visit), role)
        return await self._changed(visit, outcome, "user_role_changed", f"{before} to {role}")

    async def change_teams(self, visit: Visit) -> web.Response:
        """Limit an account to teams, or to none, from the next request on."""
        admin = await self._account(visit)
        try:
            teams = read_teams(visit.form.text("teams", LONGEST_TEAMS))
        except RequestError as error:
            return await self._page(visit, error)
        await visit.store.admins.set_teams(admin.name, teams)
        detail = f"{describe_teams(admin.teams)} to {describe_teams(teams)}"
        await visit.note("user_teams_changed", admin.name, detail)
        return to("/users", "user_teams_changed")

    async def remove(self, visit: Visit) -> web.Response:
        """Remove an account and its access."""
        return await self._changed(visit, await visit.store.admins.remove(_target(visit)), "user_removed", "")

    async def _changed(self, visit: Visit, outcome: ChangeResult, action: str, detail: str) -> web.Response:
        if outcome is ChangeResult.UNKNOWN:
            raise refused(404, "There is no such account.")
        if outcome is ChangeResult.LAST_ADMIN:
            return await self._page(visit, refused(400, "One admin must remain, with a password of their own."))
        await visit.note(action, _target(visit), detail)
        return to("/users", action)


def _target(visit: Visit) -> str:
    return visit.request.match_info["name"]


def read_teams(text: str) -> tuple[str, ...] | None:
    """Names of teams with blanks or commas between them; None for an empty field: all. Raises `RequestError`.

    Text that names none, such as a comma, is refused: it would lift the limit.
    """
    names = tuple(sorted(set(text.lower().replace(",", " ").split())))
    if text.strip() and not names:
        raise refused(400, "These are no names of teams; leave the field empty for all teams.", param="teams")
    if len(names) > MAX_TEAMS or not all(map(valid_team, names)):
        reason = f"At most {MAX_TEAMS} teams, each of 1 to 64 lower-case letters, digits or any of . _ -"
        raise refused(400, reason, param="teams")
    return names or None


async def check_invitation(store: Store, name: str, role: Role, teams: tuple[str, ...] | None) -> None:
    """Raise `RequestError` if an open invitation of that name gives something else, which would be replaced silently.

    The same once more is a new link in place of one that was lost.
    """
    invited = {invitation.name: invitation for invitation in await store.admins.invited(datetime.now(UTC))}
    earlier = invited.get(name)
    if earlier is not None and (earlier.role, earlier.teams) != (role, teams):
        before = f"{earlier.role}, {describe_teams(earlier.teams)}"
        after = f"{role}, {describe_teams(teams)}"
        detail = f"{name} is invited already, as {before}; this would be {after}. Withdraw the open invitation first."
        raise refused(409, detail, param="name")


async def without_keys(store: Store, teams: Iterable[str] | None) -> list[str]:
    """Those of the teams that no key has yet: possibly misspelled."""
    return sorted(set(teams or ()) - set(await store.keys.teams()))


def describe(role: Role, teams: tuple[str, ...] | None) -> str:
    """A user's permissions for the audit trail."""
    return str(role) if teams is None else f"{role}, {describe_teams(teams)}"


def describe_teams(teams: tuple[str, ...] | None) -> str:
    """What a user sees."""
    return "all teams" if teams is None else f"teams {', '.join(teams) or 'none'}"
