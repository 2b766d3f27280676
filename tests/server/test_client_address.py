"""Tests `sidecar.server.client_address`: forwarded addresses count only if reported by trusted proxies."""

from __future__ import annotations

from ipaddress import ip_network
from types import SimpleNamespace

import pytest
from multidict import CIMultiDict

from sidecar.server.client_address import address_of, peer_address, rate_limit_network

TRUSTED = [ip_network(text) for text in ("10.0.0.0/8", "192.0.2.7", "fd00::/8")]


def request(peer: str | None, *forwarded: str) -> SimpleNamespace:
    """A request with a peer and X-Forwarded-For fields."""
    return SimpleNamespace(remote=peer, headers=CIMultiDict(("X-Forwarded-For", value) for value in forwarded))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.5", (), "203.0.113.5"),
        ("203.0.113.5", ("198.51.100.1",), "203.0.113.5"),
        ("10.1.1.1", (), "10.1.1.1"),
        ("10.1.1.1", ("198.51.100.1",), "198.51.100.1"),
        ("10.1.1.1", ("1.1.1.1, 198.51.100.1",), "198.51.100.1"),
        ("10.1.1.1", ("1.1.1.1, 198.51.100.1", "10.2.2.2"), "198.51.100.1"),
        ("10.1.1.1", ("198.51.100.1, 192.0.2.7",), "198.51.100.1"),
        ("10.1.1.1", ("10.3.3.3, 10.2.2.2",), "10.3.3.3"),
        ("10.1.1.1", ("198.51.100.1:4711",), "198.51.100.1"),
        ("10.1.1.1", ("[2001:db8::5]:4711",), "2001:db8::5"),
        ("10.1.1.1", ("::ffff:198.51.100.1",), "198.51.100.1"),
        ("::ffff:10.1.1.1", ("198.51.100.1",), "198.51.100.1"),
        ("fd00::1", ("2001:db8::5",), "2001:db8::5"),
        ("10.1.1.1", ("198.51.100.1, not an address",), "10.1.1.1"),
        ("10.1.1.1", ("",), "10.1.1.1"),
        ("10.1.1.1", ("<script>", "198.51.100.1\x00"), "10.1.1.1"),
        (None, ("198.51.100.1",), "unknown"),
        ("", (), "unknown"),
    ],
)
def test_the_address_is_the_last_that_no_trusted_proxy_has(
    peer: str | None, forwarded: tuple[str, ...], address: str
) -> None:
    """Entries before an untrusted address are ignored; an invalid address ends the search."""
    assert address_of(request(peer, *forwarded), TRUSTED) == address  # type: ignore[arg-type]


def test_nobody_is_trusted_unless_named() -> None:
    """By default the peer is the client, regardless of its headers."""
    assert address_of(request("127.0.0.1", "198.51.100.1"), ()) == "127.0.0.1"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "counted"),
    [("198.51.100.1", "198.51.100.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("unknown", "unknown")],
)
def test_limits_count_a_network_of_ipv6(address: str, counted: str) -> None:
    """IPv6 addresses are counted by /64, because a subscriber has a whole network."""
    assert rate_limit_network(address) == counted


@pytest.mark.parametrize(
    ("peer", "address"), [("10.1.1.1", "10.1.1.1"), ("::ffff:10.1.1.1", "10.1.1.1"), ("", "None"), (None, "None")]
)
def test_the_peer_is_who_is_connected(peer: str | None, address: str) -> None:
    """Whatever it says of others."""
    assert str(peer_address(request(peer, "198.51.100.1"))) == address  # type: ignore[arg-type]
