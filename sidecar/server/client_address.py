"""The client address of a request: the peer, or the address that a trusted proxy reports.

`X-Forwarded-For` is read from the end, as long as the current address is a proxy that the operator trusts
(`listen.trusted_proxies`): earlier entries are claims of the client and are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import web

UNKNOWN = "unknown"
CACHED_PEERS = 1_024
"""Peers whose address is kept as it is written here."""
_PREFIX = 64
"""The prefix length of one IPv6 subscriber, who could evade a limit on single addresses."""


def address_of(request: web.Request, trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """The address of the client, or `unknown` if the connection has none."""
    if not trusted:
        return _peer(request.remote or "")
    address = _parse_address(request.remote or "")
    if address is None:
        return UNKNOWN
    for hop in reversed(",".join(request.headers.getall("X-Forwarded-For", ())).split(",")):
        if not any(address in network for network in trusted):
            break
        next_address = _parse_address(hop)
        if next_address is None:
            break
        address = next_address
    return str(address)


@lru_cache(CACHED_PEERS)
def _peer(text: str) -> str:
    address = _parse_address(text)
    return UNKNOWN if address is None else str(address)


def peer_address(request: web.Request) -> IPv4Address | IPv6Address | None:
    """The address at the other end of the connection, whatever headers say."""
    return _parse_address(request.remote or "")


def is_within(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether an address lies in one of these networks."""
    parsed = _parse_address(address)
    return parsed is not None and any(parsed in network for network in networks)


def rate_limit_network(address: str) -> str:
    """The unit that rate limits count: an IPv4 address or an IPv6 /64."""
    parsed = _parse_address(address)
    return str(ip_network((parsed, _PREFIX), strict=False)) if isinstance(parsed, IPv6Address) else address


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address as written by proxies, possibly with a port or brackets."""
    text = text.strip().removeprefix("[").partition("]")[0]
    if text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
