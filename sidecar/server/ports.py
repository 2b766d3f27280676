"""Ports in use, found before anything else is loaded, so that the message comes at once and names all of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Sequence

from sidecar.config import Settings
from sidecar.config.sources import variable
from sidecar.errors import ConfigError

MAX_PORT, STEP = 65_535, 1_000
"""The highest port, and the distance of the one that a message proposes."""
_UNUSABLE = (errno.EADDRINUSE, errno.EACCES)
"""Everything else is left to the listening itself, which knows more about a host with several addresses."""


async def check_ports(settings: Settings, *, share: bool = False) -> None:
    """Raise `ConfigError` naming every port of the settings that cannot be listened on. `share`: SO_REUSEPORT."""
    listen, admin = settings.listen, settings.admin
    ports = [("listen.port", listen.host, listen.port), ("admin.port", admin.host, admin.port)]
    ports += [("listen.grpc_port", listen.host, listen.grpc_port)] if listen.grpc_port else []
    problems = [
        f"{setting}: {host}:{port}: {os.strerror(code)}; choose another, e.g. {variable(setting)}={_other(port)}"
        for setting, host, port in ports
        if port and (code := await _bind_error(host, port, share=share))
    ]
    if problems:
        raise ConfigError("cannot listen", problems)


def _other(port: int) -> int:
    return port + STEP if port + STEP <= MAX_PORT else port - STEP


async def _bind_error(host: str, port: int, *, share: bool) -> int | None:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        return None
    return next((code for code in (_try_bind(address, share=share) for address in found) if code in _UNUSABLE), None)


def _try_bind(address: Sequence[object], *, share: bool) -> int | None:
    """Bind as the listener will, and let go at once."""
    family, kind, protocol, _, place = address
    try:
        with socket.socket(family, kind, protocol) as probe:  # type: ignore[arg-type]
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if share:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(place)  # type: ignore[arg-type]
    except OSError as error:
        return error.errno
    return None
