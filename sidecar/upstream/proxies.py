"""A forward proxy between sidecar and upstream, as many networks have one (RFC 9110, 9.3.6: CONNECT)."""

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
"""To a proxy they would mean itself."""


class Refused(Exception):
    """The proxy did not open a tunnel; the text is its status."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where the proxy listens, and the value of `Proxy-Authorization`, if it wants one."""

    host: str
    port: int
    authorization: str | None = None


def chosen(setting: str | None, upstream: URL) -> Proxy | None:
    """The proxy for an upstream: of the setting, or of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.

    Raises `ConfigError` for an address that is none.
    """
    if setting is None or (upstream.host or "") in _LOOPBACK:
        return None
    if setting != ENVIRONMENT:
        return _parsed(setting, "upstream.proxy")
    variables = getproxies_environment()
    if proxy_bypass(upstream.host_port_subcomponent or ""):
        return None
    address = variables.get(upstream.scheme) or variables.get("all")
    return _parsed(address, f"{upstream.scheme.upper()}_PROXY") if address else None


def _parsed(address: str, where: str) -> Proxy:
    try:
        url = URL(address if "://" in address else f"http://{address}")
    except ValueError:
        raise ConfigError(where, ["is no address like http://proxy.internal:3128"]) from None
    if url.scheme != "http" or not url.raw_host:
        raise ConfigError(where, ["must be like http://proxy.internal:3128; other schemes are not supported"])
    if url.raw_user is None:
        return Proxy(url.raw_host, url.port or 80)
    pair = f"{unquote(url.raw_user)}:{unquote(url.raw_password or '')}"
    return Proxy(url.raw_host, url.port or 80, f"Basic {base64.b64encode(pair.encode()).decode()}")


async def tunnel(connected: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Ask the proxy at the other end of the socket for a tunnel. Raises `Refused` or `OSError`."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connected, "\r\n".join([*lines, "", ""]).encode("ascii"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = await loop.sock_recv(connected, 1)  # what follows the head is the upstream's
        if not byte or len(head) > HEAD_BYTES:
            raise Refused("no answer")
        head += byte
    status = head.split(b" ", 2)[1:2]
    if not status or len(status[0]) != 3 or not status[0].startswith(b"2"):
        raise Refused(status[0][:3].decode("ascii", "replace") if status else "no HTTP")
