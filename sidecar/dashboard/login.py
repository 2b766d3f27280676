"""Login, logout, one-time links, and the account page.

A login always gets a fresh token. A wrong name and a wrong password take the same fixed time and get the same answer.
Attempts are limited per address and per account, over all replicas where the limits are shared; a one-time link still
works for a locked account.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from aiohttp import web

from sidecar.dashboard.cookies import digest, new_token
from sidecar.dashboard.forms import Form, FormError, refused
from sidecar.dashboard.guard import Guard, Route, Visit, to
from sidecar.dashboard.passwords import Passwords, problem
from sidecar.errors import RateLimited, RequestError
from sidecar.limits import Limiter
from sidecar.server.client_address import rate_limit_network
from sidecar.storage import Admin, Role, valid_name
from sidecar.util import logs
from sidecar.util.units import Rate

PER_ADDRESS, ADDRESS_BURST = Rate(20, 60.0), 10
PER_ACCOUNT, ACCOUNT_BURST = Rate(10, 600.0), 8
FAILURE_TAKES = 0.05
"""Seconds that a failed login takes: longer than a password hash and an audit entry, which only known names get."""
_log = logs.get("login")


class Login:
    """The login pages."""

    def __init__(self, guard: Guard, limiter: Limiter, passwords: Passwords) -> None:
        self._guard = guard
        self._limiter = limiter
        self._passwords = passwords

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route("GET", "/login", self.show, needs=None),
            Route("POST", "/login", self.enter, needs=None),
            Route("POST", "/logout", self.leave),
            Route("POST", "/logout/everywhere", self.leave_everywhere),
            Route("GET", "/invitation/{token}", self.show_invitation, needs=None),
            Route("POST", "/invitation/{token}", self.accept, needs=None),
            Route("GET", "/account", self.account),
            Route("POST", "/account/password", self.change_password),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The login form."""
        if visit.session:
            return to(_inside(visit.query))
        fresh = not await visit.store.admins.any()
        return visit.page("login.html", next=_inside(visit.query), error=None, fresh=fresh)

    async def enter(self, visit: Visit) -> web.Response:
        """Log in, or show the form with an error."""
        name, target = _name(visit.form), _inside(visit.form)
        try:
            admin = await self._authenticate(visit, name)
        except RequestError as error:
            answer = visit.page("login.html", error.status, next=target, error=error, fresh=False)
            if error.retry_after is not None:
                answer.headers["Retry-After"] = str(error.retry_after)
            return answer
        await self._begin(visit, admin)
        await visit.note("login")
        return to(target)

    async def _authenticate(self, visit: Visit, name: str) -> Admin:
        """The account with this name and password."""
        await self._admit(f"login-from:{rate_limit_network(visit.address)}", PER_ADDRESS, ADDRESS_BURST)
        await self._admit(f"login-as:{_short(name)}", PER_ACCOUNT, ACCOUNT_BURST)
        started_at = time.monotonic()
        admin = await visit.store.admins.get(name) if valid_name(name) else None
        if await self._passwords.verify(visit.form.get("password", ""), admin.password if admin else None) and admin:
            return admin
        _log.warning("login_failed", address=visit.address, known=admin is not None)
        if admin:
            await visit.note("login_failed", admin.name)
        await asyncio.sleep(started_at + FAILURE_TAKES - time.monotonic())
        raise refused(401, "The name or the password is wrong.")

    async def _admit(self, key: str, rate: Rate, burst: int) -> None:
        if (wait := await self._limiter.take(key, rate, burst)) > 0:
            seconds = max(1, math.ceil(wait))
            raise RateLimited(f"Too many tries. Try again in {seconds} s.", retry_after=seconds)

    async def _begin(self, visit: Visit, admin: Admin) -> None:
        """Open a session with a new token and close the browser's previous one."""
        if visit.session:
            await visit.store.sessions.close(visit.session.digest)
        visit.token, now = new_token(), datetime.now(UTC)
        await visit.store.sessions.open(digest(visit.token), admin.name, visit.address, now)
        visit.session = await self._guard.session(visit.token)
        await self._guard.forget_old_sessions()

    async def leave(self, visit: Visit) -> web.Response:
        """Close this session."""
        await visit.store.sessions.close(digest(visit.token))
        await visit.note("logout")
        visit.token = new_token()
        return to("/login")

    async def leave_everywhere(self, visit: Visit) -> web.Response:
        """Close all sessions of this account."""
        await visit.store.sessions.close_all(visit.name)
        await visit.note("logout_everywhere")
        visit.token = new_token()
        return to("/login")

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
            await self._admit(f"login-from:{rate_limit_network(visit.address)}", PER_ADDRESS, ADDRESS_BURST)
            _check(name, visit.form)
        except RequestError as error:
            return await self._invitation_page(visit, error)
        hashed = await self._passwords.hash(visit.form["password"])
        admin = await visit.store.admins.accept(_digest(visit), name, hashed, now)
        if admin is None:
            return await self._invitation_page(visit, None)
        await self._begin(visit, admin)
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
            await self._admit(f"login-as:{_short(visit.name)}", PER_ACCOUNT, ACCOUNT_BURST)
            is_current = await self._passwords.verify(visit.form.get("current", ""), admin.password if admin else None)
            _check(visit.name, visit.form, {} if is_current else {"current": "The current password is wrong."})
        except RequestError as error:
            return await self._account_page(visit, error)
        await visit.store.admins.set_password(visit.name, await self._passwords.hash(visit.form["password"]))
        await self._begin(visit, admin or Admin(visit.name, Role.VIEWER, "", datetime.now(UTC)))
        await visit.note("password_changed", visit.name)
        return to("/account", "password")


def _digest(visit: Visit) -> bytes:
    return digest(visit.request.match_info["token"][:100])


def _name(form: Form) -> str:
    return form.get("name", "").strip().lower()[:100]


def _short(name: str) -> str:
    """A hash of a typed name, which may be a password by mistake, as a key of bounded length."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


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


def _inside(form: Form) -> str:
    """The redirect target after login: a path on this site only."""
    target = form.get("next", "")
    safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii() and target.isprintable()
    return target if safe else "/"
