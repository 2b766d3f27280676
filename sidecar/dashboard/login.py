"""Login, logout, one-time links, and the account page.

A login always gets a fresh token. A wrong name and a wrong password take the same fixed time and get the same answer.
Attempts are limited per address and per account, over all replicas where the limits are shared; a one-time link still
works for a locked account.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from sidecar.dashboard.attempts import Attempts
from sidecar.dashboard.cookies import digest, new_token
from sidecar.dashboard.forms import Form, FormError, inside, refused
from sidecar.dashboard.guard import Guard, Route, Visit, to
from sidecar.dashboard.passwords import Passwords, problem
from sidecar.errors import RequestError
from sidecar.storage import Admin, valid_name
from sidecar.util import logs

FAILURE_TAKES = 0.05
"""Seconds that a failed login takes: longer than a password hash and an audit entry, which only known names get."""
if TYPE_CHECKING:
    from sidecar.dashboard.single_sign_on import SingleSignOn

_log = logs.get("login")


class Login:
    """The login pages."""

    def __init__(self, guard: Guard, attempts: Attempts, passwords: Passwords, sso: SingleSignOn | None = None) -> None:
        self._guard = guard
        self._attempts = attempts
        self._sso = sso
        self._passwords = passwords

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route("GET", "/login", self.show),
            Route("POST", "/login", self.enter),
            Route("POST", "/logout", self.leave),
            Route("POST", "/logout/everywhere", self.leave_everywhere),
            Route("GET", "/invitation/{token}", self.show_invitation),
            Route("POST", "/invitation/{token}", self.accept),
            Route("GET", "/account", self.account),
            Route("POST", "/account/password", self.change_password),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The login form."""
        if visit.session:
            return to(inside(visit.query))
        fresh = not await visit.store.admins.any()
        return self._form(visit, inside(visit.query), fresh=fresh)

    def _form(
        self, visit: Visit, target: str, error: RequestError | None = None, *, fresh: bool = False
    ) -> web.Response:
        values = {"next": target, "error": error, "fresh": fresh, "sso": self._sso is not None}
        return visit.page("login.html", error.status if error else 200, **values)

    async def enter(self, visit: Visit) -> web.Response:
        """Log in, or show the form with an error."""
        name, target = _name(visit.form), inside(visit.form)
        try:
            admin = await self._authenticate(visit, name)
        except RequestError as error:
            answer = self._form(visit, target, error)
            if error.retry_after is not None:
                answer.headers["Retry-After"] = str(error.retry_after)
            return answer
        await self._guard.open_session(visit, admin.name)
        await visit.note("login")
        return to(target)

    async def _authenticate(self, visit: Visit, name: str) -> Admin:
        """The account with this name and password."""
        await self._attempts.from_address(visit.address)
        await self._attempts.as_account(name)
        started_at = time.monotonic()
        admin = await visit.store.admins.get(name) if valid_name(name) else None
        if await self._passwords.verify(visit.form.get("password", ""), _password(admin)) and admin:
            return admin
        _log.warning("login_failed", address=visit.address, known=admin is not None)
        if admin:
            await visit.note("login_failed", admin.name)
        await asyncio.sleep(started_at + FAILURE_TAKES - time.monotonic())
        raise refused(401, "The name or the password is wrong.")

    async def leave(self, visit: Visit) -> web.Response:
        """Close this session."""
        await visit.store.sessions.close(digest(visit.token))
        return await self._left(visit, "logout")

    async def leave_everywhere(self, visit: Visit) -> web.Response:
        """Close all sessions of this account."""
        await visit.store.sessions.close_all(visit.name)
        return await self._left(visit, "logout_everywhere")

    async def _left(self, visit: Visit, action: str) -> web.Response:
        """The login, or first the logout at the provider, by a page: a form may not lead to another site."""
        await visit.note(action)
        url = await self._sso.logout_url(visit) if self._sso else None
        visit.session, visit.token = None, new_token()
        if url is None:
            return to("/login")
        answer = visit.page("logout.html", url=url)
        answer.headers["Refresh"] = f"0; url={url}"
        return answer

    async def show_invitation(self, visit: Visit) -> web.Response:
        """The form to set a password."""
        return await self._invitation_page(visit, None)

    async def _invitation_page(self, visit: Visit, error: RequestError | None) -> web.Response:
        invitation = await visit.store.admins.invitation(_digest(visit), datetime.now(UTC))
        if invitation is None or (invitation.name is None and await visit.store.admins.any()):
            raise refused(410, "This link was used already, has expired, or was replaced by a newer one.")
        return visit.page("invitation.html", error.status if error else 200, invitation=invitation, error=error)

    async def accept(self, visit: Visit) -> web.Response:
        """Set the password, and log in with it."""
        now = datetime.now(UTC)
        invitation = await visit.store.admins.invitation(_digest(visit), now)
        name = (invitation and invitation.name) or _name(visit.form)
        try:
            await self._attempts.from_address(visit.address)
            _check(name, visit.form)
        except RequestError as error:
            return await self._invitation_page(visit, error)
        hashed = await self._passwords.hash(visit.form["password"])
        admin = await visit.store.admins.accept(_digest(visit), name, hashed, now)
        if admin is None:
            return await self._invitation_page(visit, None)
        await self._guard.open_session(visit, admin.name)
        await visit.note("invitation_accepted", admin.name, str(admin.role))
        return to("/")

    async def account(self, visit: Visit) -> web.Response:
        """The account page with its sessions."""
        return await self._account_page(visit, None)

    async def _account_page(self, visit: Visit, error: RequestError | None) -> web.Response:
        sessions = await visit.store.sessions.list(visit.name)
        values = {"sessions": sessions, "error": error, "own": digest(visit.token), "done": visit.query.text("done")}
        return visit.page("account.html", error.status if error else 200, **values)

    async def change_password(self, visit: Visit) -> web.Response:
        """Change the password, given the current one; all other sessions end."""
        admin = await visit.store.admins.get(visit.name)
        try:
            await self._attempts.as_account(visit.name)
            is_current = await self._passwords.verify(visit.form.get("current", ""), _password(admin))
            _check(visit.name, visit.form, {} if is_current else {"current": "The current password is wrong."})
        except RequestError as error:
            return await self._account_page(visit, error)
        await visit.store.admins.set_password(visit.name, await self._passwords.hash(visit.form["password"]))
        await self._guard.open_session(visit, visit.name)
        await visit.note("password_changed", visit.name)
        return to("/account", "password")


def _digest(visit: Visit) -> bytes:
    return digest(visit.request.match_info["token"][:100])


def _name(form: Form) -> str:
    return form.get("name", "").strip().lower()[:100]


def _password(admin: Admin | None) -> str | None:
    """The hash of an account's password; None without one, as users of an OpenID provider."""
    return (admin.password or None) if admin else None


def _check(name: str, form: Form, earlier_problems: Mapping[str, str] | None = None) -> None:
    """Raise `RequestError` with everything that is wrong: with these fields, and `earlier_problems`."""
    problems = dict(earlier_problems or {})
    if not valid_name(name):
        problems["name"] = "A name has 1 to 64 lower-case letters, digits or any of . _ - + @"
    if reason := problem(form.get("password", ""), name):
        problems["password"] = reason
    if form.get("password") != form.get("again"):
        problems["again"] = "The two passwords differ."
    if problems:
        raise FormError(problems)
