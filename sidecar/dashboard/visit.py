"""One request of the dashboard: who it is from, what that user may do and see, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sidecar.dashboard.cookies import csrf
from sidecar.dashboard.forms import Form, query
from sidecar.dashboard.grants import OIDC, PROXY
from sidecar.dashboard.pages import Pages
from sidecar.dashboard.permissions import least_role
from sidecar.storage import MAX_TEAM, ApiKey, DecisionRow, Event, Filter, Role, Session, Store


@dataclass(slots=True)
class Visit:
    """One request: its user, cookie, form and query.

    `token` is the cookie's value after the response, `address` the client's, `base` the dashboard's public base URL;
    `viewer_texts`: viewers see prompt texts, too.
    """

    request: web.Request
    pages: Pages
    store: Store
    token: str
    address: str
    base: str = ""
    session: Session | None = None
    form: Form = field(default_factory=Form)
    viewer_texts: bool = False

    @property
    def query(self) -> Form:
        """The query of the URL."""
        return query(self.request.query)

    @property
    def name(self) -> str:
        """The user's name; empty if not logged in."""
        return self.session.name if self.session else ""

    @property
    def has_session(self) -> bool:
        """Whether the user can log out here: whom a proxy names is a user for as long as it does."""
        return self.session is not None and not self.name.startswith(PROXY)

    @property
    def has_password(self) -> bool:
        """Whether the account has a password of its own."""
        return self.has_session and not self.name.startswith(OIDC)

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """A rendered page for this visit."""
        frame = {"visit": self, "csrf": csrf(self.token), "may_change": self.may(Role.ADMIN), "can": self.can}
        text = self.pages.draw(template, {**frame, "path": self.request.path, **values})
        return web.Response(status=status, text=text, content_type="text/html")

    def may(self, role: Role) -> bool:
        """Whether the user has the permissions of that role."""
        return self.session is not None and self.session.role.includes(role)

    def can(self, method: str, path: str) -> bool:
        """Whether the user may use that route, which is written as in `permissions`."""
        least = least_role(method, path)
        return least is None or self.may(least)

    @property
    def teams(self) -> tuple[str, ...] | None:
        """The teams whose rows the user sees; None: all. Without a login none."""
        if self.session is None:
            return ()
        return None if self.may(Role.ADMIN) else self.session.teams

    @property
    def selected_teams(self) -> tuple[str, ...] | None:
        """Those of `teams` that the query `?team=` leaves."""
        team = self.query.text("team", MAX_TEAM)
        if not team:
            return self.teams
        return (team,) if self.teams is None or team in self.teams else ()

    def within(self, criteria: Filter) -> Filter:
        """The filter, of the teams that the user sees and has chosen, without texts if the role hides them."""
        return replace(criteria, teams=self.selected_teams, text_hidden=None if self.sees_texts else True)

    async def decision(self, decision_id: str) -> DecisionRow | None:
        """A decision that the user may see, with its text if the role allows it."""
        limits = Filter(teams=self.teams, text_hidden=None if self.sees_texts else True)
        return await self.store.decisions.get(decision_id, limits)

    async def key(self, key_id: str) -> ApiKey | None:
        """A key that the user may see."""
        return await self.store.keys.of_teams(key_id, self.teams)

    async def keys(self) -> list[ApiKey]:
        """The keys that the user may see, of the teams that are chosen, the oldest first."""
        return await self.store.keys.list(self.selected_teams)

    async def team_choices(self) -> Sequence[str]:
        """The teams that the user may choose from; empty where there is no choice."""
        teams = await self.store.keys.teams() if self.teams is None else self.teams
        return teams if self.teams is None or len(teams) > 1 else ()

    @property
    def sees_texts(self) -> bool:
        """Whether the user sees texts of prompts."""
        return self.viewer_texts or self.may(Role.OPERATOR)

    async def note(self, action: str, target: str = "", detail: str = "") -> None:
        """Write an action to the audit trail."""
        await self.store.audit.add(Event(datetime.now(UTC), self.name, self.address, action, target, detail))


Page = Callable[[Visit], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """A page."""

    method: str
    path: str
    page: Page


def to(path: str, done: str = "") -> web.Response:
    """Redirect after a change. `done` names the message that the page shows."""
    return web.Response(status=303, headers={"Location": f"{path}?done={done}" if done else path})
