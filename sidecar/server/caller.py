"""The scan context of an HTTP request: its decision id, and the key that the gatekeeper found valid."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from aiohttp import web

from sidecar.auth.api_keys import ApiKey
from sidecar.scan.service import ScanContext
from sidecar.server.client_address import address_of, rate_limit_network

API_KEY = web.RequestKey("api_key", ApiKey)
"""Set by the gatekeeper after validating the key."""


LOOPBACK = frozenset({"127.0.0.1", "::1"})
"""Peer addresses of a pod's other containers, which share it."""


def client_network(request: web.Request, proxies: Sequence[IPv4Network | IPv6Network] = ()) -> str:
    """What limits count for a client without a key: its IPv4 address, or its IPv6 /64. `proxies`: the trusted ones."""
    address = address_of(request, proxies) if proxies else request.remote or ""
    return rate_limit_network(address) if ":" in address and address not in LOOPBACK else address


def scan_context(
    request: web.Request, decision: str, entrypoint: str, route: str, proxies: Sequence[IPv4Network | IPv6Network] = ()
) -> ScanContext:
    """Who asks, and where. Read it after the request was admitted. `proxies`: the trusted ones."""
    key = request.get(API_KEY)
    address = "" if key is not None else client_network(request, proxies)
    return ScanContext(decision, entrypoint, route, key, address, address_of(request, proxies))
