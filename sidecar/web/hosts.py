"""The names that the data port answers to: what was meant for somebody else is refused, not handed to the model.

Without `listen.hosts` every name is answered. A pod whose traffic is redirected here needs them: other services may
listen on the model's port, and what is for them comes here as well. A web page whose name was made to point at
loopback (DNS rebinding) is refused by the same token.
"""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.errors import RequestError
from sidecar.web.admin.guard import host_of

OWN = frozenset({"localhost", "127.0.0.1", "::1"})
"""Who asks loopback means the sidecar."""


class Misdirected(RequestError):
    """The request names a host that is not served here."""

    status = 421
    code = "misdirected_request"


def only_for(hosts: Collection[str]) -> Middleware:
    """Refuse whatever does not name one of `hosts` or loopback; no hosts: refuse nobody. Ports do not matter."""
    names = OWN | {name.lower().rstrip(".") for name in hosts}

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if hosts and host_of(f"//{request.headers.get('Host', '')}") not in names:
            raise Misdirected("This host is not served here (listen.hosts); nothing was forwarded.")
        return await handler(request)

    return handle
