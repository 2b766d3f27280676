"""Bulkheads whose occupants are counted by the gauge of scans in flight."""

from __future__ import annotations

from weakref import WeakSet

from sidecar.observability.metrics import IN_FLIGHT
from sidecar.util.bulkhead import Bulkhead

_COUNTED: WeakSet[Bulkhead] = WeakSet()
IN_FLIGHT.set_function(lambda: sum(bulkhead.occupants for bulkhead in tuple(_COUNTED)))


def counted_bulkhead(limit: int, queue: int) -> Bulkhead:
    """A bulkhead that `sidecar_scans_in_flight` counts for as long as it exists."""
    bulkhead = Bulkhead(limit, queue)
    _COUNTED.add(bulkhead)
    return bulkhead
