"""An OpenID provider: its endpoints, its keys, and the claims of a user for whom it issued a code.

Nothing that it sends is believed before its signature, issuer, audience, nonce and time are checked; only asymmetric
algorithms are accepted. Errors and log lines hold no code, token, secret or claim.
"""

from __future__ import annotations

import base64
import hmac
import math
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus, urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sidecar.config import Oidc
from sidecar.config.admin import is_secure
from sidecar.config.secret_files import problem, read_secret
from sidecar.errors import RequestError
from sidecar.util import json, logs
from sidecar.util.connections import describe_connection
from sidecar.util.files import describe_failure

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
CLOCK_SKEW = 60
METADATA_SECONDS = 3600.0
MAX_ANSWER = 512 * 1024
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_log = logs.get("oidc")
Claims = Mapping[str, Any]


class ProviderError(RequestError):
    """The provider does not answer as it should. `reason`: for the log."""

    status = 503

    def __init__(self, reason: str) -> None:
        super().__init__("The identity provider does not answer as it should. Accounts with a password still work.")
        self.reason = reason


class TokenError(RequestError):
    """What the provider issued is not valid for this login. `reason`: for the log."""

    status = 403

    def __init__(self, reason: str) -> None:
        super().__init__("The identity provider's answer is not valid for this login. Start again.")
        self.reason = reason


class OidcProvider:
    """The provider of the settings; nothing is fetched before the first login. Methods may raise `ProviderError`."""

    def __init__(self, settings: Oidc) -> None:
        """Raises `ConfigError` if a file cannot be used."""
        self._settings = settings
        file = settings.client_secret_file
        self._secret = read_secret(file, "admin.oidc.client_secret_file") if file else None
        self._tls = _context(settings)
        self._metadata: tuple[Mapping[str, Any], float] = ({}, 0.0)
        self._keys: KeySet | None = None

    async def authorization_url(self, redirect_uri: str, state: str, nonce: str, challenge: str) -> str:
        """Where a user logs in."""
        endpoint = (await self._endpoints())["authorization_endpoint"]
        parameters = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(endpoint, parameters)

    async def logout_url(self, redirect_uri: str) -> str | None:
        """Where a user logs out at the provider, too; None if it has no such page."""
        endpoint = (await self._endpoints()).get("end_session_endpoint")
        if not isinstance(endpoint, str) or not is_secure(endpoint):
            return None
        parameters = {"client_id": self._settings.client_id, "post_logout_redirect_uri": redirect_uri}
        return _with_query(endpoint, parameters)

    async def claims(self, code: str, redirect_uri: str, verifier: str, nonce: str) -> Claims:
        """The claims about the user for whom the code was issued. Raises `TokenError`."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        token = await self._redeem({**form, "code_verifier": verifier, "client_id": self._settings.client_id})
        claims = await self._verify(token)
        self._check(claims, nonce)
        return claims

    async def _redeem(self, form: dict[str, str]) -> str:
        """The ID token for a code."""
        metadata, headers = await self._endpoints(), {}
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self._secret and "client_secret_basic" in methods:
            headers["Authorization"] = _basic(self._settings.client_id, self._secret)
        elif self._secret:
            form["client_secret"] = self._secret
        status, answer = await self._fetch("POST", str(metadata["token_endpoint"]), data=form, headers=headers)
        if status in {400, 401}:
            raise TokenError("code_refused")
        token = answer.get("id_token")
        if status != 200 or not isinstance(token, str):
            raise ProviderError("no_id_token")
        return token

    async def _verify(self, token: str) -> Claims:
        """The claims of a token with a valid signature. Keys are read again if those of before do not verify it."""
        if self._keys is not None:
            with suppress(JoseError, ValueError):
                return _decode(token, self._keys)
        try:
            return _decode(token, await self._read_keys())
        except (JoseError, ValueError) as error:
            raise TokenError(f"token_{type(error).__name__}") from None

    def _check(self, claims: Claims, nonce: str) -> None:
        """Raises `TokenError` unless the claims are this provider's, for us, for this login and for now."""
        now, audience, subject = time.time(), claims.get("aud"), claims.get("sub")
        audiences = audience if isinstance(audience, list) else [audience]
        party = claims.get("azp", self._settings.client_id if len(audiences) == 1 else None)
        checks = {
            "issuer": claims.get("iss") == self._settings.issuer,
            "audience": self._settings.client_id in audiences and party == self._settings.client_id,
            "expired": now - CLOCK_SKEW < _moment(claims, "exp", -math.inf),
            "issued": _moment(claims, "iat", math.inf) < now + CLOCK_SKEW,
            "not_before": _moment(claims, "nbf", 0.0) < now + CLOCK_SKEW,
            "nonce": hmac.compare_digest(str(claims.get("nonce")).encode(), nonce.encode()),
            "subject": isinstance(subject, str) and 0 < len(subject) <= 255,
        }
        if wrong := [name for name, is_right in checks.items() if not is_right]:
            raise TokenError(f"wrong_{wrong[0]}")

    async def _endpoints(self) -> Mapping[str, Any]:
        """The provider's description of itself."""
        metadata, until = self._metadata
        if time.monotonic() < until:
            return metadata
        url = str(self._settings.issuer).rstrip("/") + "/.well-known/openid-configuration"
        status, metadata = await self._fetch("GET", url)
        if status != 200 or metadata.get("issuer") != self._settings.issuer:
            raise ProviderError("no_metadata" if status != 200 else "foreign_issuer")
        if not all(isinstance(metadata.get(name), str) and is_secure(metadata[name]) for name in _ENDPOINTS):
            raise ProviderError("endpoints")
        self._metadata = metadata, time.monotonic() + METADATA_SECONDS
        return metadata

    async def _read_keys(self) -> KeySet:
        status, keys = await self._fetch("GET", str((await self._endpoints())["jwks_uri"]))
        try:
            self._keys = KeySet.import_key_set(keys)  # type: ignore[arg-type]  # checked by the library
        except (JoseError, ValueError, KeyError, TypeError):
            raise ProviderError(f"keys_{status}") from None
        return self._keys

    async def _fetch(self, method: str, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
        """Status and JSON object of an answer of bounded size; redirects are not followed."""
        timeout = ClientTimeout(total=self._settings.timeout)
        try:
            async with (
                ClientSession(timeout=timeout) as session,
                session.request(method, url, ssl=self._tls, allow_redirects=False, **options) as answer,
            ):
                body = await answer.content.read(MAX_ANSWER)
                while chunk := await answer.content.read(MAX_ANSWER):
                    body += chunk
                    if len(body) > MAX_ANSWER:
                        raise ProviderError("answer_too_large")
                content = json.loads(body)
        except (ClientError, TimeoutError, OSError) as error:
            raise ProviderError(describe_connection(error)) from None
        except ValueError:
            raise ProviderError("no_json") from None
        if not isinstance(content, dict):
            raise ProviderError("no_json")
        return answer.status, content


def _decode(token: str, keys: KeySet) -> Claims:
    return jwt.decode(token, keys, algorithms=ALGORITHMS).claims


def _moment(claims: Claims, name: str, default: float) -> float:
    """A time in the claims; `default` if it is missing. What is no time is NaN, which compares with nothing."""
    value = claims.get(name, default)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _basic(name: str, secret: str) -> str:
    """Client credentials in a header (RFC 6749, section 2.3.1)."""
    return f"Basic {base64.b64encode(f'{quote_plus(name)}:{quote_plus(secret)}'.encode()).decode()}"


def _with_query(url: str, parameters: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"


def _context(settings: Oidc) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        try:
            context.load_verify_locations(settings.ca_file)
        except OSError as error:
            reason = "no certificate in PEM" if isinstance(error, ssl.SSLError) else describe_failure(error)
            raise problem("admin.oidc.ca_file", settings.ca_file, reason) from None
    return context
