"""CORS: web pages may use the data port only if `listen.origins` names their origin.

Browsers let any page send requests to loopback and to internal networks, although the page cannot read the responses.
So browser requests from other origins are refused, and responses to an allowed origin carry the CORS headers (Fetch
standard). No cookies are involved: credentials are keys in header fields.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.errors import RequestError
from sidecar.server.allowed_hosts import LOOPBACK_NAMES

PREFLIGHT_MAX_AGE = "600"
"""How long a browser may cache the result of a preflight, in seconds."""
ENVOY_PREFIX = "/envoy/"
_FOREIGN = frozenset({"cross-site", "same-site"})
_CORS_PREFIX = "access-control-"


class OriginRefused(RequestError):
    """The request comes from a web page whose origin is not allowed."""

    status = 403
    code = "origin_not_allowed"


def allow_origins(origins: Collection[str], hosts: Collection[str] = ()) -> Middleware:
    """Refuse pages of other origins; answer the preflights of those that match (`*` is a wildcard).

    The sidecar's own pages have a loopback name, one of `hosts`, or an IP address: any other name may be made to
    resolve to it. Envoy's checks are exempt: they carry the origin of the page that called Envoy.
    """
    allowed, names = _matching(origins), LOOPBACK_NAMES | {name.lower().rstrip(".") for name in hosts}

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if request.path.startswith(ENVOY_PREFIX):
            return await handler(request)
        if origin is None:
            if request.headers.get("Sec-Fetch-Site") in _FOREIGN:
                raise OriginRefused(f"Web pages may not use this port{_HINT}")
            return await handler(request)
        if allowed.fullmatch(origin.lower()):
            return _preflight(request) if _is_preflight(request) else await handler(request)
        if not _is_same_origin(request, origin, names):
            raise OriginRefused(f"Pages of this origin may not use this port{_HINT}")
        return await handler(request)

    return handle


_HINT = " (listen.origins); nothing was forwarded."


class CorsHeaders:
    """For `on_response_prepare`: replaces the CORS headers of an upstream by those for the allowed origins."""

    def __init__(self, origins: Collection[str]) -> None:
        self._allowed = _matching(origins)

    async def __call__(self, request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers."""
        origin = request.headers.get("Origin")
        if origin is None or _is_preflight(request):
            return
        for name in [name for name in response.headers if name.lower().startswith(_CORS_PREFIX)]:
            del response.headers[name]
        if self._allowed.fullmatch(origin.lower()):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "*"
            response.headers.add("Vary", "Origin")


def _matching(origins: Collection[str]) -> re.Pattern[str]:
    """Compile origins to one pattern. Only `*` is special: brackets occur in IPv6 addresses."""
    literal = (re.escape(origin.lower().rstrip("/")).replace(r"\*", ".*") for origin in origins)
    return re.compile("|".join(literal) or r"(?!)")


def _is_preflight(request: web.Request) -> bool:
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def _preflight(request: web.Request) -> web.Response:
    request_headers = request.headers
    fields = {
        "Access-Control-Allow-Origin": request_headers["Origin"],
        "Access-Control-Allow-Methods": request_headers["Access-Control-Request-Method"],
        "Access-Control-Allow-Headers": request_headers.get("Access-Control-Request-Headers", ""),
        "Access-Control-Max-Age": PREFLIGHT_MAX_AGE,
        "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    if request_headers.get("Access-Control-Request-Private-Network") == "true":
        fields["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=fields)


def _is_same_origin(request: web.Request, origin: str, names: Collection[str]) -> bool:
    try:
        origin_url = urlsplit(origin)
        host = origin_url.hostname or ""
    except ValueError:
        return False
    return origin_url.netloc.lower() == request.headers.get("Host", "").lower() and (host in names or _is_address(host))


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False
