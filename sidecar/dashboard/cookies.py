"""The one cookie: a random token that first marks a visitor and, replaced at login, then a session.

The CSRF token of a form is derived from the cookie's, so it needs no storage, and changes with it. The
server keeps digests alone. On https the cookie is `Secure` and bound to this host by its name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from aiohttp import web

PLAIN, BOUND = "sidecar_session", "__Host-sidecar_session"
_LENGTH = 43


def new_token() -> str:
    """256 random bits as text that fits in a cookie or a link."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).digest()


def csrf(token: str) -> str:
    """What a form must send back."""
    return hmac.digest(token.encode(), b"csrf", "sha256").hex()


class Cookies:
    """Reads and sets the cookie. `secure`: people reach the dashboard by https."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        self._name = BOUND if secure else PLAIN

    def read(self, request: web.Request) -> str | None:
        """The token that the browser sent, if it has the form of one."""
        value = request.cookies.get(self._name, "")
        return value if len(value) == _LENGTH and value.isascii() else None

    def give(self, response: web.StreamResponse, token: str) -> None:
        """Set the token; the browser forgets it when it closes."""
        response.set_cookie(self._name, token, path="/", httponly=True, samesite="Lax", secure=self._secure)
