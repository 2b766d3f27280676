"""Twin of sidecar/server/ports.py: ports in use are found before anything is loaded."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support import free_port

from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.server.ports import check_ports


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """Three ports on which somebody listens."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        yield [int(listener.getsockname()[1]) for listener in listeners]


def settings(port: int, admin: int, **listen: object) -> Settings:
    """Settings with these ports."""
    sections = {"listen": {"port": port, **listen}, "admin": {"port": admin}, "compat": {"envoy": True}}
    return Settings.model_validate(sections)


async def test_free_ports_and_ports_of_the_systems_choice_pass() -> None:
    """Nothing is raised, and the port is free again afterwards."""
    port = free_port()
    for _ in range(2):
        await check_ports(settings(port, 0))


async def test_every_port_in_use_is_named_with_its_setting(taken: list[int]) -> None:
    """All in one error, each with the variable that changes it."""
    with pytest.raises(ConfigError, match="cannot listen") as caught:
        await check_ports(settings(taken[0], taken[1], grpc_port=taken[2]))
    places = [problem.partition(":")[0] for problem in caught.value.problems]
    assert places == ["listen.port", "admin.port", "listen.grpc_port"]
    assert f"127.0.0.1:{taken[0]}: Address already in use" in caught.value.problems[0]
    assert "SIDECAR__ADMIN__PORT=" in caught.value.problems[1]


async def test_workers_share_a_port_among_themselves() -> None:
    """A port that another worker listens on is no problem for one that shares it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        await check_ports(settings(port, 0), share=True)
        with pytest.raises(ConfigError):
            await check_ports(settings(port, 0))


async def test_a_host_that_has_no_address_is_left_to_the_listener() -> None:
    """Its own message says more than a port in use."""
    await check_ports(settings(free_port(), 0, host="no-such-host.invalid"))
