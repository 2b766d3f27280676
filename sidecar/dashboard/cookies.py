"""The session cookie: a random token that identifies a visitor before login and, replaced at login, a session.

A form's CSRF token is derived from the cookie's token, so it is not stored and changes with it. The server stores only
digests. On https the cookie is `Secure` and host-bound by its name prefix.
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
    """The digest under which a token is stored."""
    return hashlib.sha256(token.encode()).digest()


def csrf(token: str) -> str:
    """The CSRF token that a form must send back."""
    return hmac.digest(token.encode(), b"csrf", "sha256").hex()


class Cookies:
    """Reads and sets the cookie. `secure`: the dashboard is served over https."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        self._name = BOUND if secure else PLAIN

    def read(self, request: web.Request) -> str | None:
        """The token that the browser sent, if it is well-formed."""
        value = request.cookies.get(self._name, "")
        return value if len(value) == _LENGTH and value.isascii() else None

    def give(self, response: web.StreamResponse, token: str) -> None:
        """Set the token as a session cookie, which the browser deletes when it closes."""
        response.set_cookie(self._name, token, path="/", httponly=True, samesite="Lax", secure=self._secure)
