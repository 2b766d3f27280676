"""Limits of login attempts: per address and per account, over all replicas where the limits are shared."""

from __future__ import annotations

import hashlib
import math

from sidecar.errors import RateLimited
from sidecar.limits import Limiter
from sidecar.server.client_address import rate_limit_network
from sidecar.util.units import Rate

PER_ADDRESS, ADDRESS_BURST = Rate(20, 60.0), 10
PER_ACCOUNT, ACCOUNT_BURST = Rate(10, 600.0), 8


class Attempts:
    """Counts attempts. Both methods raise `RateLimited`."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def from_address(self, address: str) -> None:
        """Count an attempt from this address."""
        await self._admit(f"login-from:{rate_limit_network(address)}", PER_ADDRESS, ADDRESS_BURST)

    async def as_account(self, name: str) -> None:
        """Count an attempt as this account: by a hash of the typed name, which may be a password by mistake."""
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
        await self._admit(f"login-as:{digest}", PER_ACCOUNT, ACCOUNT_BURST)

    async def _admit(self, key: str, rate: Rate, burst: int) -> None:
        if (wait := await self._limiter.take(key, rate, burst)) > 0:
            seconds = max(1, math.ceil(wait))
            raise RateLimited(f"Too many tries. Try again in {seconds} s.", retry_after=seconds)
