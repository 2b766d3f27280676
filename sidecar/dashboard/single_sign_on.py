"""Login with an OpenID provider: authorization code with PKCE, bound to the browser in which it was begun.

State, nonce and code verifier are derived from the browser's cookie, so nothing is stored until somebody is logged in,
and any replica can end what another one began. A login replaces the cookie, so a callback works once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sidecar.config import Admin as Settings
from sidecar.dashboard.attempts import Attempts
from sidecar.dashboard.forms import inside, refused
from sidecar.dashboard.grants import MAX_GROUPS, OIDC, Grant, grant
from sidecar.dashboard.guard import Guard, Route, Visit, to
from sidecar.dashboard.oidc_provider import Claims, OidcProvider, ProviderError, TokenError
from sidecar.dashboard.users import describe
from sidecar.errors import RequestError
from sidecar.storage import Admin, valid_name
from sidecar.util import logs

CALLBACK = "/login/oidc/callback"
LIFE = 600
"""Seconds that a login at the provider may take."""
MAX_PATH = 200
MAX_CODE = 4_096
_log = logs.get("oidc")


class SingleSignOn:
    """The pages of this login."""

    def __init__(self, guard: Guard, attempts: Attempts, settings: Settings) -> None:
        """Raises `ConfigError` if a file cannot be used."""
        self._guard, self._attempts, self._settings = guard, attempts, settings
        self._provider = OidcProvider(settings.oidc)

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [Route("GET", "/login/oidc", self.begin), Route("GET", CALLBACK, self.end)]

    async def begin(self, visit: Visit) -> web.Response:
        """Send the browser to the provider."""
        if visit.session:
            return to("/")
        await self._attempts.from_address(visit.address)
        state = new_state(visit.token, inside(visit.query).partition("?")[0][:MAX_PATH])
        challenge = _base64(hashlib.sha256(derive(visit.token, "verifier", state).encode()).digest())
        nonce = derive(visit.token, "nonce", state)
        try:
            return to(await self._provider.authorization_url(visit.base + CALLBACK, state, nonce, challenge))
        except ProviderError as error:
            _log.warning("oidc_login_failed", reason=error.reason, address=visit.address)
            raise

    async def end(self, visit: Visit) -> web.Response:
        """Log in the user for whom the provider sent a code."""
        if visit.session:
            return to("/")
        await self._attempts.from_address(visit.address)
        try:
            claims = await self._claims(visit)
        except (ProviderError, TokenError) as error:
            _log.warning("oidc_login_failed", reason=error.reason, address=visit.address)
            raise
        name, access = await self._access(visit, claims)
        await self._enter(visit, name, access, str(claims["sub"]))
        return to(target_of(visit.query.get("state", "")))

    async def logout_url(self, visit: Visit) -> str | None:
        """Where a user who logged in here logs out at the provider, too; None if nowhere, or it does not answer."""
        try:
            return await self._provider.logout_url(visit.base + "/login") if visit.name.startswith(OIDC) else None
        except ProviderError:
            return None

    async def _claims(self, visit: Visit) -> Claims:
        query, state = visit.query, visit.query.get("state", "")
        if not is_valid_state(visit.token, state):
            raise TokenError("state")
        if query.get("iss", self._settings.oidc.issuer or "") != self._settings.oidc.issuer:
            raise TokenError("foreign_issuer")
        code = visit.request.query.get("code", "")
        if not 0 < len(code) <= MAX_CODE:
            raise TokenError("no_code")
        verifier, nonce = derive(visit.token, "verifier", state), derive(visit.token, "nonce", state)
        return await self._provider.claims(code, visit.base + CALLBACK, verifier, nonce)

    async def _access(self, visit: Visit, claims: Claims) -> tuple[str, Grant]:
        """The name and permissions of a user. Raises `RequestError` for one without access."""
        claim = claims.get(self._settings.oidc.name_claim)
        user = claim.strip().lower() if isinstance(claim, str) else ""
        if not valid_name(user) or len(OIDC + user) > 64:
            raise await _no_access(visit, "", "no_name", "The provider gives no name for you that can be used here.")
        name = OIDC + user
        if not self._is_of_domain(claims):
            raise await _no_access(visit, name, "domain", "Your e-mail address is not of an allowed domain.")
        access = grant(groups_in(claims, self._settings.oidc.groups_claim), self._settings)
        if access is None:
            raise await _no_access(visit, name, "no_group", "None of your groups has access to this dashboard.")
        return name, access

    def _is_of_domain(self, claims: Claims) -> bool:
        domains = {domain.lower() for domain in self._settings.oidc.domains}
        is_verified = claims.get("email_verified") in (True, "true")
        return not domains or (is_verified and str(claims.get("email")).lower().rpartition("@")[2] in domains)

    async def _enter(self, visit: Visit, name: str, access: Grant, subject: str) -> None:
        """Take over what the provider says, and open a session."""
        identity = f"{self._settings.oidc.issuer} {subject}"
        admin = Admin(name, access.role, "", datetime.now(UTC), teams=access.teams, subject=identity)
        accounts = await visit.store.admins.sign_in(admin)
        if accounts is None:
            raise await _no_access(visit, name, "name_taken", "Your name belongs to another user of this dashboard.")
        before, after = accounts
        await self._guard.open_session(visit, after.name)
        await visit.note("login", after.name, "OpenID")
        earlier = describe(before.role, before.teams) if before else "new"
        if (permissions := describe(after.role, after.teams)) != earlier:
            await visit.note("user_role_changed", after.name, f"{earlier} to {permissions}, by the OpenID provider")


async def _no_access(visit: Visit, name: str, reason: str, words: str) -> RequestError:
    """The error for a user who is known at the provider and has no access here."""
    _log.warning("oidc_login_refused", reason=reason, address=visit.address)
    await visit.note("login_refused", name, reason)
    return refused(403, words)


def groups_in(claims: Claims, name: str) -> list[str]:
    """The groups in a claim of that name, or at that path of objects."""
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [item for item in values[:MAX_GROUPS] if isinstance(item, str)]


def new_state(token: str, path: str) -> str:
    """A state for one login: random, with its end and the page to go to, sealed with the cookie's token."""
    content = f"{secrets.token_urlsafe(16)}.{int(time.time()) + LIFE}.{_base64(path.encode())}"
    return f"{content}.{derive(token, 'state', content)}"


def is_valid_state(token: str, state: str) -> bool:
    """Whether the state was made for this cookie, and has not ended."""
    content, _, seal = state.rpartition(".")
    is_ours = hmac.compare_digest(seal.encode(), derive(token, "state", content).encode())
    return is_ours and time.time() < int(content.split(".")[1])


def target_of(state: str) -> str:
    """The page in a valid state."""
    part = state.split(".")[2]
    return inside({"next": base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()})


def derive(token: str, purpose: str, content: str) -> str:
    """A secret of the browser with that cookie, for one purpose and one login."""
    return hmac.digest(token.encode(), f"oidc-{purpose}:{content}".encode(), "sha256").hex()


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
