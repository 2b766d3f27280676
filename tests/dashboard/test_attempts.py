"""Twin of sidecar/dashboard/attempts.py."""

from __future__ import annotations

import pytest

from sidecar.dashboard.attempts import ACCOUNT_BURST, ADDRESS_BURST, Attempts
from sidecar.errors import RateLimited
from sidecar.limits import MemoryLimiter


async def test_attempts_are_counted_by_network_and_by_account() -> None:
    """One too many has to wait; other addresses and accounts do not, but those of one IPv6 subscriber are one."""
    attempts = Attempts(MemoryLimiter())
    for number in range(ADDRESS_BURST):
        await attempts.from_address(f"2001:db8::{number}")
    with pytest.raises(RateLimited) as limited:
        await attempts.from_address("2001:db8::ffff")
    assert limited.value.retry_after
    await attempts.from_address("192.0.2.1")
    for _ in range(ACCOUNT_BURST):
        await attempts.as_account("ada")
    with pytest.raises(RateLimited):
        await attempts.as_account("ada")
    await attempts.as_account("vic")
