"""Tests of the gauge of scans in flight."""

from __future__ import annotations

import asyncio

from sidecar.limits import counted_bulkhead
from sidecar.observability.metrics import REGISTRY
from sidecar.util.bulkhead import Bulkhead


def in_flight() -> float:
    """The value of the gauge."""
    return REGISTRY.get_sample_value("sidecar_scans_in_flight") or 0.0


async def test_the_gauge_counts_running_and_waiting_tasks() -> None:
    """Tasks count while they run or wait, in counted bulkheads only."""
    before, counted, uncounted = in_flight(), counted_bulkhead(1, 1), Bulkhead(1, 1)
    async with counted, uncounted:
        waiter = asyncio.ensure_future(counted.__aenter__())
        await asyncio.sleep(0)
        assert in_flight() == before + 2
    await waiter
    await counted.__aexit__(None, None, None)
    assert in_flight() == before
