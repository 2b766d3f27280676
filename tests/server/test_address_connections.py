"""Twin of sidecar/server/address_connections.py."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest

from sidecar.server.address_connections import AddressConnections


def transport(peer: str) -> asyncio.Transport:
    """A connection from this address."""
    return asyncio.Transport(extra={"peername": (peer, 1)})


@pytest.mark.parametrize(("first", "second"), [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")])
def test_an_address_has_so_many_connections_and_another_as_many(first: str, second: str) -> None:
    """Addresses of one IPv6 /64 count together; a closed connection makes room for another."""
    connections = AddressConnections(2)
    opened = [connections.open(transport(peer)) for peer in (first, second, first)]
    assert opened[0] == opened[1] is not None
    assert opened[2] is None
    assert connections.open(transport("198.51.100.1")) == "198.51.100.1"
    connections.close(opened[0])
    assert connections.open(transport(second)) == opened[0]


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.3.2.1", "::1", "10.1.2.3"])
def test_an_address_that_stands_for_many_clients_has_no_bound(peer: str) -> None:
    """Loopback and trusted proxies are not counted."""
    connections = AddressConnections(1, [ip_network("10.0.0.0/8")])
    assert [connections.open(transport(peer)) for _ in range(3)] == ["", "", ""]


def test_an_address_without_connections_is_not_kept() -> None:
    """However many addresses come and leave, nothing remains of them."""
    connections = AddressConnections(1)
    for number in range(100):
        address = connections.open(transport(f"192.0.2.{number}"))
        assert address is not None
        connections.close(address)
    assert connections.__dict__ == AddressConnections(1).__dict__
