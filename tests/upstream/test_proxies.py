"""Twin of sidecar/upstream/proxies.py: a real forward proxy (proxy.py), with and without a password."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from support import end
from yarl import URL

from sidecar.config import Upstream as Settings
from sidecar.config.sections import UpstreamTls
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream import proxies
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import Outgoing

HTTPS = URL("https://models.example/v1")
ELSEWHERE = "127.0.0.2"
"""An address that a proxy may be asked for, unlike 127.0.0.1."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a proxy listens that wants `user` and `p@ss`."""
    port = tmp_path_factory.mktemp("proxy") / "port"
    command = [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", "0", "--port-file", str(port)]
    process = subprocess.Popen([*command, "--basic-auth", "user:p@ss", "--num-workers", "1", "--log-level", "ERROR"])
    try:
        while not (port.exists() and port.read_text().strip()):
            assert process.poll() is None
            time.sleep(0.02)
        yield f"127.0.0.1:{port.read_text().strip()}"
    finally:
        end(process, signal.SIGINT)


async def answer(request: web.Request) -> web.Response:
    """What arrived: the target, and the fields that are the proxy's business."""
    return web.json_response({"target": request.raw_path, "authorization": "Proxy-Authorization" in request.headers})


async def ask(server: TestServer, settings: Settings) -> str:
    """The answer to a POST."""
    upstream = HttpUpstream(str(server.make_url("/v1")), settings)
    try:
        async with upstream.send(Outgoing("POST", "/v1/x?a=%2F", CIMultiDict(), b'{"a":1}')) as found:
            return b"".join([chunk async for chunk in found.chunks()]).decode()
    finally:
        await upstream.close()


def made(**options: object) -> TestServer:
    """An upstream."""
    app = web.Application()
    app.router.add_post("/v1/x", answer)
    return TestServer(app, host=ELSEWHERE, **options)  # type: ignore[arg-type]


async def test_a_plain_request_is_sent_on_by_the_proxy(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream sees the path alone, and not the password of the proxy."""
    monkeypatch.setenv("http_proxy", f"http://user:p%40ss@{address}")
    monkeypatch.setenv("no_proxy", "other.example")
    async with made() as server:
        said = await ask(server, Settings(proxy="environment"))
    assert said == '{"target": "/v1/x?a=%2F", "authorization": false}'


async def test_an_encrypted_request_goes_through_a_tunnel(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Encryption is from sidecar to upstream: the proxy sees a name and a port."""
    monkeypatch.setenv("https_proxy", f"http://user:p%40ss@{address}")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(ELSEWHERE).configure_cert(context)
    server = made(scheme="https")
    await server.start_server(ssl=context)
    try:
        said = await ask(server, Settings(proxy="environment", tls=UpstreamTls(ca_file=tmp_path / "ca.pem")))
    finally:
        await server.close()
    assert '"/v1/x?a=%2F"' in said


async def test_a_tunnel_that_is_refused_is_502_at_once(address: str) -> None:
    """With the status of the proxy, and without more attempts."""
    upstream = HttpUpstream(f"https://{ELSEWHERE}:9", Settings(proxy=f"http://{address}"))
    with pytest.raises(UpstreamError, match="proxy refused, 407") as refused:
        async with upstream.send(Outgoing("GET", "/v1/models", CIMultiDict())):
            pass
    await upstream.close()
    assert refused.value.status == 502


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"https_proxy": "http://a.example:3128"}, proxies.Proxy("a.example", 3128)),
        ({"HTTPS_PROXY": "a.example:3128"}, proxies.Proxy("a.example", 3128)),
        ({"http_proxy": "http://a.example:3128"}, None),
        ({"all_proxy": "http://a.example"}, proxies.Proxy("a.example", 80)),
        ({"https_proxy": "http://a.example:1", "no_proxy": "models.example"}, None),
        ({"https_proxy": "http://a.example:1", "no_proxy": ".example,localhost"}, None),
        ({"https_proxy": "http://a.example:1", "no_proxy": "*"}, None),
        ({"https_proxy": "http://a.example:1", "no_proxy": "ls.example"}, proxies.Proxy("a.example", 1)),
        ({"https_proxy": "http://u:p@a.example:1"}, proxies.Proxy("a.example", 1, "Basic dTpw")),
    ],
)
def test_the_environment_says_which_proxy(
    variables: dict[str, str], found: proxies.Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As curl and requests read it; without the setting it is not read at all."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxies.chosen("environment", HTTPS) == found
    assert proxies.chosen(None, HTTPS) is None
    assert proxies.chosen("http://a.example:1", URL("http://127.0.0.1:8000")) is None  # to a proxy that is itself


@pytest.mark.parametrize("address", ["https://a.example", "socks5://a.example:1080", "http://", "http://a:b:c"])
def test_an_address_that_cannot_be_used_is_refused_at_the_start(address: str) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigError, match=r"upstream\.proxy"):
        proxies.chosen(address, HTTPS)


def test_a_password_in_the_settings_is_refused_without_saying_it() -> None:
    """Secrets are in files or in the environment."""
    with pytest.raises(ValueError, match="HTTPS_PROXY"):
        Settings(proxy="http://user:secret@a.example:1")
