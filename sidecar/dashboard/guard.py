"""Request checks for every page: host, headers, session, CSRF, role; and the error page.

A page is a `Route`, whose least role is in `permissions`. Its handler gets a `Visit`: the user and the form. A request
that changes something must prove by three independent signals that it comes from our own page: `Sec-Fetch-Site` and
`Origin` where the browser sends them, and a CSRF token.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import quote, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.config import Admin
from sidecar.dashboard.cookies import Cookies, csrf, digest, new_token
from sidecar.dashboard.forms import read, refused
from sidecar.dashboard.pages import Pages
from sidecar.dashboard.permissions import least_role
from sidecar.dashboard.proxy_users import ProxyUsers
from sidecar.dashboard.visit import Route, Visit, to
from sidecar.errors import RequestError, StoreError
from sidecar.server.allowed_hosts import host_of
from sidecar.server.client_address import address_of
from sidecar.server.middleware import error_location
from sidecar.storage import Session, Store
from sidecar.util import logs

__all__ = ["Guard", "Route", "Visit", "add_security_headers", "to"]
PROBES = frozenset({"/health", "/ready", "/startup", "/metrics", "/openapi.json"})
LARGEST_FORM = 4 * 1024 * 1024
LARGEST_ANONYMOUS_FORM = 16 * 1024
FOREIGN_HOST = 421
TOUCH_AFTER = timedelta(minutes=1)
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_log = logs.get("dashboard")


class Guard:
    """Wraps pages with the request checks."""

    def __init__(
        self, store: Store, pages: Pages, settings: Admin, proxies: Sequence[IPv4Network | IPv6Network]
    ) -> None:
        self._store = store
        self._proxies = proxies
        self._pages = pages
        self._idle = timedelta(seconds=settings.idle)
        self._longest = timedelta(seconds=settings.session)
        self._hosts = allowed_hosts(settings)
        self._proxy_users = ProxyUsers(settings)
        self._viewer_texts = settings.viewer_texts
        self._url = (settings.url or "").rstrip("/")
        self.cookies = Cookies(secure=(settings.url or "").startswith("https:"))

    def wrap(self, route: Route) -> web.RouteDef:
        """The route as aiohttp registers it. Raises `KeyError` for one without a least role."""
        least = least_role(route.method, route.path)

        async def handle(request: web.Request) -> web.StreamResponse:
            visit = await self._visit(request)
            if request.method == "POST":
                await self._receive(visit)
            if least and not visit.session:
                return _to_login(request)
            if least and not visit.may(least):
                raise refused(403, f"This needs the role {least}.")
            answer = await route.page(visit)
            if visit.token != self.cookies.read(request):
                self.cookies.give(answer, visit.token)
            return answer

        return web.route(route.method, route.path, handle)

    def middleware(self) -> Middleware:
        """Host check, security headers and error pages for everything but probes."""

        @web.middleware
        async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in PROBES:
                return await handler(request)
            try:
                self._check_host(request)
                answer = await handler(request)
            except Exception as error:  # noqa: BLE001 - the last boundary: whatever it is, people get a page
                answer = await self._error_page(request, error)
            if not answer.prepared:
                add_security_headers(answer)
            return answer

        return handle

    async def _visit(self, request: web.Request) -> Visit:
        token = self.cookies.read(request)
        visit = self._stranger(request)
        if token:
            visit.token = token
        if (session := self._proxy_users.session(request, visit.token)) is not None:
            visit.session = session
        elif token:
            # An automatic refresh is not user activity.
            visit.session = await self.session(token, touch="live" not in request.query)
        return visit

    def _stranger(self, request: web.Request) -> Visit:
        address = address_of(request, self._proxies)
        base = self._url or f"http://{request.host}"
        visit = Visit(request, self._pages, self._store, new_token(), address, base)
        visit.viewer_texts = self._viewer_texts
        return visit

    async def session(self, token: str, *, touch: bool = True) -> Session | None:
        """The session of a token, while it is valid. `touch`: record its use, which keeps it alive."""
        now = datetime.now(UTC)
        fresh = {"used_after": now - self._idle, "created_after": now - self._longest}
        session = await self._store.sessions.find(digest(token), **fresh)
        if touch and session and session.used_at < now - TOUCH_AFTER:
            await self._store.sessions.touch(session.digest, now)
        return session

    async def open_session(self, visit: Visit, name: str) -> None:
        """Log in as that account: with a new token, and without the browser's previous session."""
        if visit.session:
            await self._store.sessions.close(visit.session.digest)
        visit.token, now = new_token(), datetime.now(UTC)
        await self._store.sessions.open(digest(visit.token), name, visit.address, now)
        visit.session = await self.session(visit.token)
        await self._forget_old_sessions()

    async def _forget_old_sessions(self) -> None:
        """Delete expired sessions."""
        now = datetime.now(UTC)
        await self._store.sessions.purge(used_before=now - self._idle, created_before=now - self._longest)

    async def _receive(self, visit: Visit) -> None:
        """Read the form, and refuse one that does not come from our own page."""
        _check_origin(visit.request)
        visit.form = await read(visit.request, LARGEST_FORM if visit.session else LARGEST_ANONYMOUS_FORM)
        if not hmac.compare_digest(visit.form.pop("csrf", "").encode(), csrf(visit.token).encode()):
            raise refused(403, "This form is too old. Go back, load the page again and repeat what you did.")

    def _check_host(self, request: web.Request) -> None:
        """Refuse other Host headers, which protects against DNS rebinding."""
        if host_of(f"//{request.headers.get('Host', '')}") not in self._hosts:
            raise refused(FOREIGN_HOST, "The dashboard is not served under this name (see admin.url in the settings).")

    async def _error_page(self, request: web.Request, error: Exception) -> web.Response:
        """The error as a page, with the menu for those who are logged in."""
        page_error = _for_people(error)
        visit = self._stranger(request)
        if page_error.status != FOREIGN_HOST:
            with suppress(StoreError, RequestError):
                visit = await self._visit(request)
        answer = visit.page("error.html", page_error.status, error=page_error, back=_referring_page(request))
        if page_error.retry_after is not None:
            answer.headers["Retry-After"] = str(page_error.retry_after)
        return answer


def _for_people(error: Exception) -> RequestError:
    """The error to show; details of the database and of bugs are only logged."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, web.HTTPException):
        return refused(error.status, "There is no such page." if error.status == 404 else str(error.reason))
    if isinstance(error, StoreError):
        _log.error("page_failed", error=error)
        return refused(503, "The database does not answer. Try again in a moment.")
    _log.error("page_failed", kind=type(error).__name__, at=error_location(error))
    return refused(500, "Something went wrong here; the log says where.")


def _referring_page(request: web.Request) -> str:
    """The page of ours that the request came from, else the first one."""
    try:
        url = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return "/"
    is_ours = url.netloc == request.headers.get("Host") and url.path.startswith("/") and url.path != request.path
    return url.path + (f"?{url.query}" if url.query else "") if is_ours and not url.path.startswith("//") else "/"


def add_security_headers(answer: web.StreamResponse) -> None:
    """Add the security headers to a response, which may have set its own caching."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)


def allowed_hosts(settings: Admin) -> frozenset[str]:
    """The host names the dashboard answers to: loopback names, the bound address, and `admin.url`."""
    hosts = {"localhost", "127.0.0.1", "::1", settings.host.lower()}
    return frozenset(hosts | ({host_of(settings.url)} if settings.url else set())) - {"0.0.0.0", "::", ""}  # noqa: S104


def _check_origin(request: web.Request) -> None:
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin")
    if site != "same-origin" or (origin is not None and urlsplit_netloc(origin) != request.headers.get("Host")):
        raise refused(403, "This request does not come from a page of this dashboard.")


def urlsplit_netloc(url: str) -> str | None:
    """Host and port as written; None if the URL is invalid."""
    try:
        return urlsplit(url).netloc or None
    except ValueError:
        return None


def _to_login(request: web.Request) -> web.Response:
    target = request.rel_url.raw_path_qs if request.method == "GET" else "/"
    return to("/login" if target == "/" else f"/login?next={quote(target, safe='')}")
