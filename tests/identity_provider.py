"""A small OpenID provider as a process of its own: login page, code flow with PKCE, RS256, discovery, logout.

Usage: python identity_provider.py, which prints its port. Tests start it with `open_provider`. It is strict where a
real one is: a code works once, for its client, redirect URI and verifier. `/control` makes it misbehave.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "sidecar", "the-secret-of-the-client"
PAGE = '<form method="post" action="/authorize?{}"><input name="user"><button>Log in</button></form>'


class IdentityProvider:
    """The provider; `faults`: `claims` replaced in ID tokens, `alg`, `key` (`foreign`), `metadata` replaced."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys = [RSAKey.generate_key(2048, {"kid": "first"})]
        self.codes: dict[str, dict[str, str]] = {}
        self.users: dict[str, dict[str, Any]] = {}
        self.faults: dict[str, Any] = {}
        self.requests: list[str] = []

    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        return [
            web.get("/.well-known/openid-configuration", self.metadata),
            web.get("/keys", self.public_keys),
            web.get("/authorize", self.login_page),
            web.post("/authorize", self.login),
            web.post("/token", self.token),
            web.get("/logout", self.logout),
            web.post("/control", self.control),
            web.post("/rotate", self.rotate),
        ]

    async def metadata(self, _request: web.Request) -> web.Response:
        """The discovery document."""
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        urls = {name: f"{self.issuer}/{path}" for name, path in {**paths, "end_session_endpoint": "logout"}.items()}
        return web.json_response({"issuer": self.issuer, **urls, **self.faults.get("metadata", {})})

    async def public_keys(self, _request: web.Request) -> web.Response:
        """The keys in use."""
        return web.json_response(KeySet(list(self.keys)).as_dict(private=False))

    async def login_page(self, request: web.Request) -> web.Response:
        """The form, if the client may ask for a code."""
        query = request.query
        is_right = query.get("client_id") == CLIENT and query.get("response_type") == "code"
        is_proof = query.get("code_challenge_method") == "S256" and len(query.get("code_challenge", "")) == 43
        if not (is_right and is_proof and "openid" in query.get("scope", "").split() and query.get("nonce")):
            raise web.HTTPBadRequest
        return web.Response(text=PAGE.format(request.query_string), content_type="text/html")

    async def login(self, request: web.Request) -> web.Response:
        """Issue a code."""
        user, code = str((await request.post())["user"]), secrets.token_urlsafe(24)
        self.codes[code] = {**request.query, "user": user}
        answer = {"code": code, "state": request.query["state"], "iss": self.issuer, **self.faults.get("answer", {})}
        return web.Response(status=303, headers={"Location": f"{request.query['redirect_uri']}?{urlencode(answer)}"})

    async def token(self, request: web.Request) -> web.Response:
        """Exchange a code, which ends with it."""
        form = await request.post()
        grant = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form.get("code_verifier", "")).encode()).digest()
        challenge = _base64(digest)
        if request.headers.get("Authorization") != f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}":
            return web.json_response({"error": "invalid_client"}, status=401)
        if not grant or (grant["redirect_uri"], grant["code_challenge"]) != (form["redirect_uri"], challenge):
            return web.json_response({"error": "invalid_grant"}, status=400)
        body = {"access_token": "opaque", "token_type": "Bearer", "id_token": self._id_token(grant)}
        return web.json_response(body)

    def _id_token(self, grant: dict[str, str]) -> str:
        now, user = int(time.time()), grant["user"]
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": f"id-of-{user}", "iat": now, "exp": now + 300}
        claims |= {"nonce": grant["nonce"], "email": f"{user}@example.com", "email_verified": True}
        claims |= {**self.users.get(user, {}), **self.faults.get("claims", {})}
        claims = {name: value for name, value in claims.items() if value is not None}
        algorithm, key = self.faults.get("alg", "RS256"), self.keys[0]
        if algorithm != "RS256":  # without a signature, or with the public key as the secret
            content = ".".join(
                _base64(json.dumps(part).encode()) for part in ({"alg": algorithm, "kid": key.kid}, claims)
            )
            seal = hmac.digest(key.as_pem(private=False), content.encode(), "sha256")
            return f"{content}.{_base64(seal) if algorithm == 'HS256' else ''}"
        signer = RSAKey.generate_key(2048) if self.faults.get("key") == "foreign" else key
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, signer)

    async def logout(self, request: web.Request) -> web.Response:
        """The end of the session here."""
        return web.Response(text=f"Bye. {request.query['post_logout_redirect_uri']}")

    async def control(self, request: web.Request) -> web.Response:
        """Set users and faults."""
        orders = await request.json()
        self.users, self.faults = orders.get("users", self.users), orders.get("faults", {})
        return web.json_response({})

    async def rotate(self, _request: web.Request) -> web.Response:
        """Replace the key."""
        self.keys = [RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})]
        return web.json_response({})


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Process:
    """The running provider."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process, self.issuer = process, f"http://127.0.0.1:{port}"

    def post(self, path: str, **orders: object) -> None:
        """Give orders."""
        with urlopen(Request(self.issuer + path, json.dumps(orders).encode()), timeout=60):  # noqa: S310 - loopback
            pass

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


@contextmanager
def open_provider(**users: dict[str, Any]) -> Iterator[Process]:
    """A provider that knows these users by their claims."""
    command = [sys.executable, str(Path(__file__))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        provider = Process(process, int(process.stdout.readline()))
        try:
            provider.post("/control", users=users)
            yield provider
        finally:
            process.kill()


async def _serve(provider: IdentityProvider) -> None:
    app = web.Application()
    app.add_routes(provider.routes())
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    provider.issuer = f"http://127.0.0.1:{port}"
    print(port, flush=True)  # noqa: T201 - told to the parent
    await asyncio.Event().wait()


if __name__ == "__main__":
    import asyncio

    asyncio.run(_serve(IdentityProvider()))
