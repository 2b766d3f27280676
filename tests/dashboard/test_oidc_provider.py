"""Twin of sidecar/dashboard/oidc_provider.py; whole logins are in tests/dashboard/test_single_sign_on.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from identity_provider import CLIENT, open_provider

from sidecar.config import Limits, Oidc
from sidecar.dashboard.oidc_provider import MAX_ANSWER, OidcProvider, ProviderError
from sidecar.errors import ConfigError
from sidecar.server.server import Site


def settings(issuer: str, **values: object) -> Oidc:
    """A client of that provider."""
    return Oidc.model_validate({"issuer": issuer, "client_id": CLIENT, "timeout": "30s", **values})


@asynccontextmanager
async def answering(body: bytes, status: int = 200) -> AsyncIterator[str]:
    """A server that answers everything alike."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"Location": "http://127.0.0.1:1/"})

    app = web.Application()
    app.add_routes([web.get("/{path:.*}", answer)])
    site = Site(app, Limits(), drain=1.0)
    try:
        yield f"http://127.0.0.1:{await site.listen('127.0.0.1', 0)}"
    finally:
        await site.close()


async def test_a_request_for_a_code_has_all_that_binds_the_answer() -> None:
    """State, nonce and the challenge of PKCE, with the scopes of the settings."""
    with open_provider() as process:
        provider = OidcProvider(settings(process.issuer, scopes=["openid", "groups"]))
        url = await provider.authorization_url("https://s.example/cb", "state", "nonce", "challenge")
        query = parse_qs(urlsplit(url).query)
        assert url.startswith(f"{process.issuer}/authorize?")
        assert {name: values[0] for name, values in query.items()} == {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": "https://s.example/cb",
            "scope": "openid groups",
            "state": "state",
            "nonce": "nonce",
            "code_challenge": "challenge",
            "code_challenge_method": "S256",
        }
        process.stop()
        assert await provider.authorization_url("https://s.example/cb", "s", "n", "c")  # what was read is kept


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 200, "no_json"),
        (b"[]", 200, "no_json"),
        (b"<html>", 200, "no_json"),
        (b"{}", 200, "foreign_issuer"),
        (b"{}", 500, "no_metadata"),
        (b"{}", 302, "no_metadata"),
        (b" " * (MAX_ANSWER + 1) + b"{}", 200, "answer_too_large"),
    ],
    ids=["empty", "list", "html", "nothing", "error", "redirect", "large"],
)
async def test_an_odd_answer_is_an_error_with_a_reason(body: bytes, status: int, reason: str) -> None:
    """Never a traceback; redirects are not followed, and not more is read than a bound."""
    async with answering(body, status) as issuer:
        with pytest.raises(ProviderError) as error:
            await OidcProvider(settings(issuer)).authorization_url("https://s.example/cb", "s", "n", "c")
    assert error.value.reason == reason


async def test_a_provider_without_a_page_for_logouts_has_no_address_of_one() -> None:
    """Nor one in plain HTTP."""
    with open_provider() as process:
        for page in (None, "http://idp.example/logout"):
            process.post("/control", faults={"metadata": {"end_session_endpoint": page}})
            assert await OidcProvider(settings(process.issuer)).logout_url("https://s.example/login") is None


@pytest.mark.parametrize("name", ["client_secret_file", "ca_file"])
def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path, name: str) -> None:
    """Missing, and for the authorities without any: with the name of the setting."""
    (tmp_path / "empty").write_text("", "utf-8")
    for file in ("absent", "empty"):
        with pytest.raises(ConfigError, match=f"admin.oidc.{name}"):
            OidcProvider(settings("https://idp.example", **{name: str(tmp_path / file)}))
