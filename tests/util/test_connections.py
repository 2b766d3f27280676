"""Twin of sidecar/util/connections.py."""

from __future__ import annotations

import errno
import socket

import pytest
from aiohttp import ClientSession

from sidecar.util.connections import describe_connection


async def test_a_refused_connection_is_told_in_plain_words() -> None:
    """The cause of aiohttp's error, not its class."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with ClientSession() as session:
            with pytest.raises(OSError, match="Cannot connect") as caught:
                await session.get(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert describe_connection(caught.value) == "connection refused"


def test_an_error_without_a_number_is_named() -> None:
    """Time that ran out, and errors that are not the system's."""
    assert describe_connection(TimeoutError()) == "TimeoutError"
    assert describe_connection(OSError(errno.ENETUNREACH, "x")) == "network is unreachable"
    assert describe_connection(socket.gaierror(-2, "Name or service not known")) == "gaierror"
