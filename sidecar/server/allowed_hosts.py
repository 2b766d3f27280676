"""Host allow-list: requests with another Host header get 421.

A port that listens on loopback accepts only loopback names unless `listen.hosts` adds others: this refuses a web page
whose name resolves to loopback (DNS rebinding). A port that listens elsewhere accepts every name unless `listen.hosts`
is set. A pod whose traffic is redirected to the sidecar needs it: other services may use the same port as the model,
and their traffic is redirected as well.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.errors import RequestError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names of a request to the sidecar itself."""
CACHED_HOSTS = 64
"""Host headers whose check is remembered: clients of one port send few."""


class Misdirected(RequestError):
    """The Host header names a host that is not served."""

    status = 421
    code = "misdirected_request"


def is_loopback(host: str) -> bool:
    """Whether an address or name is loopback (RFC 6761, 6.3)."""
    if host in LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of a URL, without port; empty if there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def allow_hosts(
    hosts: Collection[str], *, listen: str = "", exempt_prefix: str | None = None, setting: str = "listen.hosts"
) -> Middleware:
    """Refuse requests whose Host is neither one of `hosts` nor loopback. The port is ignored.

    Without hosts no request is refused, unless `listen`, the address of the port, is loopback. `exempt_prefix`: a path
    prefix whose requests name the host of another server (Envoy's checks). `setting`: its name, for the message.
    """
    names = frozenset(name.lower().rstrip(".") for name in hosts)
    checked = bool(names) or is_loopback(listen)

    @lru_cache(CACHED_HOSTS)
    def is_served(header: str) -> bool:
        host = host_of(f"//{header}")
        return host in names or is_loopback(host)

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_exempt = bool(exempt_prefix and request.path.startswith(exempt_prefix))
        if checked and not is_exempt and not is_served(request.headers.get("Host", "")):
            raise Misdirected(f"This host is not served here ({setting}); nothing was forwarded.")
        return await handler(request)

    return handle
