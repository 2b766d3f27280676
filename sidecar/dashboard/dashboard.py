"""Assembles the dashboard from its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Admin, Settings
from sidecar.dashboard.alerts import AlertsPage
from sidecar.dashboard.attempts import Attempts
from sidecar.dashboard.catalogues import Catalogues
from sidecar.dashboard.decisions import Decisions
from sidecar.dashboard.exceptions import Exceptions
from sidecar.dashboard.guard import Guard
from sidecar.dashboard.keys import KeysPage
from sidecar.dashboard.login import Login
from sidecar.dashboard.overview import Overview
from sidecar.dashboard.pages import Pages, static_files
from sidecar.dashboard.passwords import Passwords
from sidecar.dashboard.playground import Playground
from sidecar.dashboard.policies import Policies
from sidecar.dashboard.reference import Reference
from sidecar.dashboard.saved_views import SavedViews
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.dashboard.settings import SettingsPage
from sidecar.dashboard.shadow import ShadowPage
from sidecar.dashboard.trail import Trail
from sidecar.dashboard.trends import TrendsPage
from sidecar.dashboard.users import Users
from sidecar.errors import ConfigError, needs_extra
from sidecar.limits import Limiter
from sidecar.policy import Policy
from sidecar.scan.engine import Engine
from sidecar.scan.exceptions import RuleExceptions
from sidecar.storage import Store

if TYPE_CHECKING:
    from sidecar.dashboard.single_sign_on import SingleSignOn

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies of the pages; `engine`, `policy` and `status` return those in force."""

    settings: Settings
    store: Store
    keyring: KeyRing
    limiter: Limiter
    engine: Callable[[], Engine]
    policy: Callable[[], Policy]
    exceptions: RuleExceptions
    status: Callable[[], ServiceStatus]
    reference: Callable[[], str] = str
    """The description of the APIs as HTML."""
    profiles: Callable[[], Mapping[str, Engine]] = dict
    """The engines of the profiles in force."""
    test_alert: Callable[[str], Awaitable[str | None]] | None = None
    """Sends a test alert by a user: why it failed, or None. None without a receiver."""


class Dashboard:
    """The dashboard's routes and the middleware for them."""

    def __init__(self, dependencies: Dependencies) -> None:
        settings = dependencies.settings
        self._guard = Guard(dependencies.store, Pages(), settings.admin, settings.listen.trusted_proxies)
        attempts = Attempts(dependencies.limiter)
        sso = _single_sign_on(self._guard, attempts, settings.admin)
        self._routes = [
            *Overview(dependencies.policy, dependencies.status).routes(),
            *TrendsPage().routes(),
            *KeysPage(dependencies.keyring, dependencies.policy, dependencies.status).routes(),
            *SavedViews().routes(),
            *Decisions(dependencies.policy, dependencies.exceptions).routes(),
            *Playground(dependencies.engine, dependencies.policy, dependencies.status, dependencies.profiles).routes(),
            *Policies(dependencies.policy, dependencies.status).routes(),
            *Reference(dependencies.reference).routes(),
            *Exceptions(dependencies.exceptions, dependencies.policy, dependencies.status).routes(),
            *ShadowPage(dependencies.status).routes(),
            *Catalogues().routes(),
            *Login(self._guard, attempts, Passwords(), sso).routes(),
            *(sso.routes() if sso else ()),
            *Users().routes(),
            *Trail().routes(),
            *SettingsPage(dependencies.status).routes(),
            *AlertsPage(dependencies.status, dependencies.test_alert).routes(),
        ]

    def middleware(self) -> Middleware:
        """The middleware for the application that serves the routes."""
        return self._guard.middleware()

    def routes(self) -> list[web.RouteDef]:
        """All pages, the style sheet and the script."""
        return [*(self._guard.wrap(route) for route in self._routes), *_static()]


def _single_sign_on(guard: Guard, attempts: Attempts, settings: Admin) -> SingleSignOn | None:
    """Login with an OpenID provider, if there is one. Raises `ConfigError`."""
    if settings.oidc.issuer is None:
        return None
    try:
        from sidecar.dashboard.single_sign_on import SingleSignOn  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError("admin.oidc.issuer", [needs_extra("oidc")]) from None
    return SingleSignOn(guard, attempts, settings)


def _static() -> Iterator[web.RouteDef]:
    """Static files served from memory. Pages name them with their digest, so browsers may cache them indefinitely."""
    for name, content in static_files().items():
        yield web.get(f"/static/{name}", _file(content, _TYPES[name.rpartition(".")[2]]))


def _file(content: bytes, kind: str) -> Handler:
    async def send(_request: web.Request) -> web.Response:
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return web.Response(body=content, content_type=kind, charset="utf-8", headers=headers)

    return send
