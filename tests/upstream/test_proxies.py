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
from sidecar.upstream.message import UpstreamRequest

HTTPS = URL("https://models.example/v1")
ELSEWHERE = "127.0.0.2"
"""An address that is requested from a proxy, unlike 127.0.0.1."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy that requires `user` and `p@ss`."""
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
    """Reports the request target, and whether the proxy's credentials arrived."""
    return web.json_response({"target": request.raw_path, "authorization": "Proxy-Authorization" in request.headers})


async def ask(server: TestServer, settings: Settings) -> str:
    """The response to a POST."""
    upstream = HttpUpstream(str(server.make_url("/v1")), settings)
    try:
        async with upstream.send(UpstreamRequest("POST", "/v1/x?a=%2F", CIMultiDict(), b'{"a":1}')) as response:
            return b"".join([chunk async for chunk in response.chunks()]).decode()
    finally:
        await upstream.close()


def upstream_server(**options: object) -> TestServer:
    """An upstream."""
    app = web.Application()
    app.router.add_post("/v1/x", answer)
    return TestServer(app, host=ELSEWHERE, **options)  # type: ignore[arg-type]


async def test_a_plain_request_is_forwarded_by_the_proxy(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream gets only the path, and not the password of the proxy."""
    monkeypatch.setenv("http_proxy", f"http://user:p%40ss@{address}")
    monkeypatch.setenv("no_proxy", "other.example")
    async with upstream_server() as server:
        output = await ask(server, Settings(proxy="environment"))
    assert output == '{"target": "/v1/x?a=%2F", "authorization": false}'


async def test_an_encrypted_request_goes_through_a_tunnel(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """TLS is between sidecar and upstream: the proxy gets only a host name and a port."""
    monkeypatch.setenv("https_proxy", f"http://user:p%40ss@{address}")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(ELSEWHERE).configure_cert(context)
    server = upstream_server(scheme="https")
    await server.start_server(ssl=context)
    try:
        output = await ask(server, Settings(proxy="environment", tls=UpstreamTls(ca_file=tmp_path / "ca.pem")))
    finally:
        await server.close()
    assert '"/v1/x?a=%2F"' in output


async def test_a_rejected_tunnel_is_502_without_retries(address: str) -> None:
    """The message has the status of the proxy."""
    upstream = HttpUpstream(f"https://{ELSEWHERE}:9", Settings(proxy=f"http://{address}"))
    with pytest.raises(UpstreamError, match="proxy refused, 407") as refused:
        async with upstream.send(UpstreamRequest("GET", "/v1/models", CIMultiDict())):
            pass
    await upstream.close()
    assert refused.value.status == 502


@pytest.mark.parametrize(
    ("variables", "expected"),
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
def test_the_proxy_from_the_environment(
    variables: dict[str, str], expected: proxies.Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As curl and requests read it; without the setting the environment is ignored."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxies.select_proxy("environment", HTTPS) == expected
    assert proxies.select_proxy(None, HTTPS) is None
    assert proxies.select_proxy("http://a.example:1", URL("http://127.0.0.1:8000")) is None  # to a proxy that is itself


@pytest.mark.parametrize("address", ["https://a.example", "socks5://a.example:1080", "http://", "http://a:b:c"])
def test_an_invalid_address_is_rejected_at_startup(address: str) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigError, match=r"upstream\.proxy"):
        proxies.select_proxy(address, HTTPS)


def test_a_password_in_the_settings_is_rejected_without_quoting_it() -> None:
    """Secrets belong in files or in the environment."""
    with pytest.raises(ValueError, match="HTTPS_PROXY"):
        Settings(proxy="http://user:secret@a.example:1")
