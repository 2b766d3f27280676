"""Which profile a request has: that of its key, else the one that a trusted gateway names in a header.

A key with a profile keeps it whatever a header says. The header counts only from the addresses in `gateway.addresses`,
by the address of the connection itself: `X-Forwarded-For` is no proof. A profile that is not configured refuses the
request, and so does a header that is given twice; with `gateway.unknown: default` the header is then ignored.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.config import Gateway, Settings
from sidecar.errors import RequestError
from sidecar.server.client_address import address_of, is_within
from sidecar.server.headers import scan_key, sidecar_key
from sidecar.server.middleware import Gatekeeper

SCAN_API = "/api/"


class ProfileSelector:
    """Selects profiles under given settings. `gatekeeper`: that of the requests without a profile."""

    def __init__(self, settings: Settings, gatekeeper: Gatekeeper) -> None:
        self._names = frozenset(settings.profiles)
        self._gateway: Gateway = settings.gateway
        self._gatekeeper = gatekeeper

    async def select(self, request: web.Request) -> str | None:
        """The name of the profile, or None. A refusal is kept for the gatekeeper, which answers in the right format."""
        name = await self._of_key(request)
        if name is None:
            return self._of_header(request)
        if name in self._names:
            return name
        self._refuse(request, "The profile of this key is not configured.")
        return None

    async def _of_key(self, request: web.Request) -> str | None:
        read = scan_key if request.path.startswith(SCAN_API) else sidecar_key
        value = read(request.headers)
        key = await self._gatekeeper.identify(request, value) if value is not None else None
        return key.profile if key is not None else None

    def _of_header(self, request: web.Request) -> str | None:
        names = request.headers.getall(self._gateway.header, [])
        if not names or not is_within(address_of(request, ()), self._gateway.addresses):
            return None
        if len(names) == 1 and names[0] in self._names:
            return names[0]
        if self._gateway.unknown == "refuse":
            self._refuse(request, f"There is no such profile ({self._gateway.header}).")
        return None

    def _refuse(self, request: web.Request, reason: str) -> None:
        error = RequestError(reason)
        error.status, error.code = 403, "profile_not_configured"
        self._gatekeeper.refuse(request, error)
