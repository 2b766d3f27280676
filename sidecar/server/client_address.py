"""Where a request comes from: the peer, or whom a trusted proxy names in its place.

`X-Forwarded-For` is read from its end, as long as the address found so far is a proxy that the operator trusts
(`listen.trusted_proxies`): what stands before that is the client's own claim, and believed by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import web

UNKNOWN = "unknown"
_PREFIX = 64
"""What one subscriber of IPv6 holds: a limit on single addresses would be none."""


def address_of(request: web.Request, trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """The address of the client, `unknown` where the connection has none."""
    found = _read(request.remote or "")
    if found is None:
        return UNKNOWN
    for said in reversed(",".join(request.headers.getall("X-Forwarded-For", ())).split(",")):
        if not any(found in network for network in trusted):
            break
        further = _read(said)
        if further is None:
            break
        found = further
    return str(found)


def neighbourhood(address: str) -> str:
    """What a limit counts: an address of IPv4, a /64 of IPv6."""
    found = _read(address)
    return str(ip_network((found, _PREFIX), strict=False)) if isinstance(found, IPv6Address) else address


def _read(said: str) -> IPv4Address | IPv6Address | None:
    """An address as proxies write it, with a port perhaps, or brackets."""
    said = said.strip().removeprefix("[").partition("]")[0]
    if said.count(":") == 1:
        said = said.partition(":")[0]
    try:
        found = ip_address(said)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
