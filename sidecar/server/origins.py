"""Web pages that may use the data port: none, unless `listen.origins` names them.

A browser lets any page send requests to loopback and to internal networks, though the page may not read the answers.
So what a browser sends from another origin is refused, and where a page is allowed the answers say so (CORS, in the
words of the Fetch standard). No cookies are involved: credentials are keys in header fields.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.errors import RequestError
from sidecar.server.allowed_hosts import OWN

SECONDS = "600"
"""How long a browser may keep what a preflight told it."""
CHECKS = "/envoy/"
_FOREIGN = frozenset({"cross-site", "same-site"})
_TELLS = "access-control-"


class OriginRefused(RequestError):
    """A web page asked that is not allowed to."""

    status = 403
    code = "origin_not_allowed"


def only_from(origins: Collection[str], hosts: Collection[str] = ()) -> Middleware:
    """Refuse pages of other origins; answer the preflights of those that match (`*` stands for anything).

    A page of our own has a name of loopback or of `hosts`, or an address: another name may be made to point here.
    What a check of Envoy's names is the page that asked Envoy.
    """
    allowed, names = _matching(origins), OWN | {name.lower().rstrip(".") for name in hosts}

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if request.path.startswith(CHECKS):
            return await handler(request)
        if origin is None:
            if request.headers.get("Sec-Fetch-Site") in _FOREIGN:
                raise OriginRefused(f"Web pages may not use this port{_HINT}")
            return await handler(request)
        if allowed.fullmatch(origin.lower()):
            return _preflight(request) if _is_preflight(request) else await handler(request)
        if not _is_own(request, origin, names):
            raise OriginRefused(f"Pages of this origin may not use this port{_HINT}")
        return await handler(request)

    return handle


_HINT = " (listen.origins); nothing was forwarded."


class Telling:
    """For `on_response_prepare`: tells a browser whether the page may read the answer, whatever an upstream says."""

    def __init__(self, origins: Collection[str]) -> None:
        self._allowed = _matching(origins)

    async def __call__(self, request: web.Request, response: web.StreamResponse) -> None:
        """Set the fields."""
        origin = request.headers.get("Origin")
        if origin is None or _is_preflight(request):
            return
        for name in [name for name in response.headers if name.lower().startswith(_TELLS)]:
            del response.headers[name]
        if self._allowed.fullmatch(origin.lower()):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "*"
            response.headers.add("Vary", "Origin")


def _matching(origins: Collection[str]) -> re.Pattern[str]:
    """The star is the only sign that means something: an address of IPv6 stands in brackets."""
    literal = (re.escape(origin.lower().rstrip("/")).replace(r"\*", ".*") for origin in origins)
    return re.compile("|".join(literal) or r"(?!)")


def _is_preflight(request: web.Request) -> bool:
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def _preflight(request: web.Request) -> web.Response:
    asked = request.headers
    fields = {
        "Access-Control-Allow-Origin": asked["Origin"],
        "Access-Control-Allow-Methods": asked["Access-Control-Request-Method"],
        "Access-Control-Allow-Headers": asked.get("Access-Control-Request-Headers", ""),
        "Access-Control-Max-Age": SECONDS,
        "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    if asked.get("Access-Control-Request-Private-Network") == "true":
        fields["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=fields)


def _is_own(request: web.Request, origin: str, names: Collection[str]) -> bool:
    try:
        asked = urlsplit(origin)
        host = asked.hostname or ""
    except ValueError:
        return False
    return asked.netloc.lower() == request.headers.get("Host", "").lower() and (host in names or _is_address(host))


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False
