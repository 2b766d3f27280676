"""How many connections each client address has: one address cannot take all that a port accepts.

Addresses that stand for many clients are not counted: loopback, which the containers of a pod share, and trusted
proxies.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from sidecar.server.client_address import rate_limit_network

Network = IPv4Network | IPv6Network


class AddressConnections:
    """Open connections by IPv4 address or IPv6 /64. Invariant: an address without a connection is not kept."""

    def __init__(self, limit: int, shared: Sequence[Network] = ()) -> None:
        """`shared`: networks whose addresses stand for many clients."""
        self._limit, self._shared = limit, shared
        self._open = Counter[str]()

    def open(self, transport: asyncio.BaseTransport) -> str | None:
        """Count a connection and return its address, empty if it is not counted; None if the address has too many."""
        peer = (transport.get_extra_info("peername") or ("",))[0]
        if not peer or self._is_shared(peer):
            return ""
        address = rate_limit_network(peer)
        if self._open[address] >= self._limit:
            return None
        self._open[address] += 1
        return address

    def close(self, address: str) -> None:
        """A connection that was counted is closed."""
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    def _is_shared(self, peer: str) -> bool:
        address = ip_address(peer)
        return address.is_loopback or any(address in network for network in self._shared)
