"""A forward proxy between sidecar and upstream (RFC 9110, 9.3.6: CONNECT)."""

from __future__ import annotations

import asyncio
import base64
import socket
from dataclasses import dataclass
from urllib.parse import unquote
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL

from sidecar.errors import ConfigError

ENVIRONMENT = "environment"
HEAD_BYTES = 16 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""For the proxy these would be its own host."""


class ProxyRefused(Exception):
    """The proxy did not open a tunnel; the text is its status."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Address of the proxy, and the value of `Proxy-Authorization`, if it requires one."""

    host: str
    port: int
    authorization: str | None = None


def select_proxy(proxy_setting: str | None, upstream: URL) -> Proxy | None:
    """The proxy for an upstream, from the setting or from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.

    Raises `ConfigError` for an invalid address.
    """
    if proxy_setting is None or (upstream.host or "") in _LOOPBACK:
        return None
    if proxy_setting != ENVIRONMENT:
        return _parse(proxy_setting, "upstream.proxy")
    variables = getproxies_environment()
    if proxy_bypass(upstream.host_port_subcomponent or ""):
        return None
    address = variables.get(upstream.scheme) or variables.get("all")
    return _parse(address, f"{upstream.scheme.upper()}_PROXY") if address else None


def _parse(address: str, setting: str) -> Proxy:
    try:
        url = URL(address if "://" in address else f"http://{address}")
    except ValueError:
        raise ConfigError(setting, ["is no address like http://proxy.internal:3128"]) from None
    if url.scheme != "http" or not url.raw_host:
        raise ConfigError(setting, ["must be like http://proxy.internal:3128; other schemes are not supported"])
    if url.raw_user is None:
        return Proxy(url.raw_host, url.port or 80)
    pair = f"{unquote(url.raw_user)}:{unquote(url.raw_password or '')}"
    return Proxy(url.raw_host, url.port or 80, f"Basic {base64.b64encode(pair.encode()).decode()}")


async def open_tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Ask the proxy connected to `sock` for a tunnel. Raises `ProxyRefused` or `OSError`."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode("ascii"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = await loop.sock_recv(sock, 1)  # bytes after the head belong to the upstream
        if not byte or len(head) > HEAD_BYTES:
            raise ProxyRefused("no answer")
        head += byte
    status = head.split(b" ", 2)[1:2]
    if not status or len(status[0]) != 3 or not status[0].startswith(b"2"):
        raise ProxyRefused(status[0][:3].decode("ascii", "replace") if status else "no HTTP")
