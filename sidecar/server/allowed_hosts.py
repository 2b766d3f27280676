"""Host allow-list: requests with another Host header get 421.

A port that listens on loopback answers to loopback's names alone unless `listen.hosts` names more: a web page whose
name was made to point at loopback (DNS rebinding) is refused. A port that listens elsewhere answers to every name
unless there are `listen.hosts`. A pod whose traffic is redirected here needs them: other services may listen on the
model's port, and what is for them comes here as well.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.errors import RequestError

OWN = frozenset({"localhost", "127.0.0.1", "::1"})
"""Who asks loopback means the sidecar."""


class Misdirected(RequestError):
    """The request names a host that is not served here."""

    status = 421
    code = "misdirected_request"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or a name, is loopback's (RFC 6761, 6.3)."""
    if host in OWN or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of an address, without port; empty if there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def only_for(hosts: Collection[str], *, listen: str = "", but: str | None = None) -> Middleware:
    """Refuse what names neither one of `hosts` nor loopback. Ports do not matter.

    Without hosts nobody is refused, unless `listen`, the address of the port, is loopback. `but`: a path whose requests
    name the host that somebody else was asked for (Envoy's checks).
    """
    names = frozenset(name.lower().rstrip(".") for name in hosts)
    checked = bool(names) or is_loopback(listen)

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if checked and not (but and request.path.startswith(but)):
            host = host_of(f"//{request.headers.get('Host', '')}") or ""
            if host not in names and not is_loopback(host):
                raise Misdirected("This host is not served here (listen.hosts); nothing was forwarded.")
        return await handler(request)

    return handle
