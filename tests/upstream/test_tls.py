"""Tests of TLS to the upstream: a private authority, a client certificate, failed handshakes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from multidict import CIMultiDict

from sidecar.config import Upstream as Settings
from sidecar.config.sections import UpstreamTls
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream import tls
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import UpstreamRequest

GET = UpstreamRequest("GET", "/v1/models", CIMultiDict())


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """A private authority with its certificate in `ca.pem`; `own.pem` holds a client certificate and its key."""
    created = trustme.CA()
    created.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    created.issue_cert("client@sidecar.test").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    return created


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[TestServer]:
    """A TLS server with a certificate of the authority, which requires a client certificate of it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.transport.get_extra_info("peercert")["subjectAltName"][0][1])

    app = web.Application()
    app.router.add_get("/v1/models", answer)
    created = TestServer(app, scheme="https", host="localhost")
    await created.start_server(ssl=context)
    yield created
    await created.close()


async def ask(server: TestServer, settings: UpstreamTls) -> str:
    """The body of the response to one request."""
    upstream = HttpUpstream(f"https://localhost:{server.port}", Settings(tls=settings))
    try:
        async with upstream.send(GET) as answer:
            return b"".join([chunk async for chunk in answer.chunks()]).decode()
    finally:
        await upstream.close()


async def test_mutual_tls(server: TestServer, tmp_path: Path) -> None:
    """The upstream's authority is trusted by setting, and the upstream gets the client certificate."""
    tls_settings = UpstreamTls(ca_file=tmp_path / "ca.pem", certificate_file=tmp_path / "own.pem")
    assert await ask(server, tls_settings) == "client@sidecar.test"


async def test_the_environment_may_name_the_authorities(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SSL_CERT_FILE`, as OpenSSL reads it; `REQUESTS_CA_BUNDLE` belongs to a library not used here."""
    tls_settings = UpstreamTls(certificate_file=tmp_path / "own.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with pytest.raises(UpstreamError, match="TLS failed"):
        await ask(server, tls_settings)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert await ask(server, tls_settings) == "client@sidecar.test"


async def test_a_failed_handshake_says_why_in_the_log(server: TestServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The client learns that TLS failed, the operator that the authority is unknown."""
    with pytest.raises(UpstreamError, match="TLS failed"):
        await ask(server, UpstreamTls())
    output = capsys.readouterr()
    assert "upstream_tls_failed" in output.out + output.err
    assert "self-signed certificate in certificate chain" in output.out + output.err


async def test_a_missing_client_certificate_is_502(server: TestServer, tmp_path: Path) -> None:
    """The upstream ends the connection."""
    with pytest.raises(UpstreamError) as caught:
        await ask(server, UpstreamTls(ca_file=tmp_path / "ca.pem"))
    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ca_file": "missing.pem"}, "missing.pem: No such file or directory"),
        ({"ca_file": "text.pem"}, "text.pem: no certificate"),
        ({"certificate_file": "missing.pem"}, "missing.pem: No such file or directory"),
        ({"certificate_file": "ca.pem"}, "ca.pem: no certificate"),
        ({"certificate_file": "own.pem", "key_file": "missing.key"}, "No such file or directory"),
        ({"certificate_file": "own.pem", "key_file": "locked.key"}, "the key is encrypted"),
    ],
)
def test_unusable_files_are_named(
    authority: trustme.CA, tmp_path: Path, settings: dict[str, str], problem: str
) -> None:
    """At startup, with the setting and the file."""
    (tmp_path / "text.pem").write_text("no certificate")
    (tmp_path / "locked.key").write_bytes(_locked())
    with pytest.raises(ConfigError) as caught:
        tls.create_context(UpstreamTls(**{name: tmp_path / value for name, value in settings.items()}))
    assert f"upstream.tls.{next(iter(settings))}" in str(caught.value)
    assert problem in str(caught.value)


def test_a_key_without_a_certificate_is_rejected() -> None:
    """There is no certificate to present with it."""
    with pytest.raises(ValueError, match="certificate_file"):
        UpstreamTls(key_file=Path("own.key"))


def _locked() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"secret")
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
