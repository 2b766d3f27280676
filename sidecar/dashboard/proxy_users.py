"""Users whom a proxy has authenticated: their name and groups are in headers, which only its addresses may set.

It is the peer of the connection that counts, not what `X-Forwarded-For` says. Such a user has no account and no
session: role and teams follow from the groups of each request.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aiohttp import web

from sidecar.config import Admin
from sidecar.dashboard.cookies import digest
from sidecar.dashboard.forms import refused
from sidecar.dashboard.grants import MAX_GROUPS, PROXY, grant
from sidecar.server.client_address import UNKNOWN, peer_address
from sidecar.storage import Session, valid_name

_SEPARATOR = re.compile(r"[,|]")


class ProxyUsers:
    """Reads the headers (`admin.proxy`)."""

    def __init__(self, settings: Admin) -> None:
        self._settings = settings
        self._proxy = settings.proxy

    def session(self, request: web.Request, token: str) -> Session | None:
        """The user of the request; None if no proxy names one. `token`: that of the cookie, which binds the forms.

        Raises `RequestError` for a user without access.
        """
        if not self._is_believed(request):
            return None
        user = self._only(request, self._proxy.user_header) or self._only(request, self._proxy.email_header)
        if not user:
            return None
        name = PROXY + user.lower()
        if not valid_name(user.lower()) or len(name) > 64:
            raise refused(403, "The name that the proxy gives is none: a-z, 0-9 and ._-+@, at most 58 characters.")
        groups = _SEPARATOR.split(self._only(request, self._proxy.groups_header), MAX_GROUPS)
        access = grant((group.strip() for group in groups), self._settings)
        if access is None:
            raise refused(403, "You are logged in, and none of your groups has access to this dashboard.")
        now = datetime.now(UTC)
        return Session(digest(token), name, access.role, now, now, request.remote or UNKNOWN, access.teams)

    def _is_believed(self, request: web.Request) -> bool:
        address = peer_address(request) if self._proxy.addresses else None
        return address is not None and any(address in network for network in self._proxy.addresses)

    @staticmethod
    def _only(request: web.Request, name: str) -> str:
        """The value of a header. Several are refused: one of them may be the client's."""
        values = request.headers.getall(name, [])
        if len(values) > 1:
            raise refused(400, f"There is more than one header {name}.")
        return values[0].strip() if values else ""
