"""Refused API keys in the log: one line at once for a new address, then at most one a minute with what came since.

A flood of guesses must neither be silent nor fill the log. The line names the address, the reasons with their numbers,
and the id of a known key that was revoked or has expired; never the value that was sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from sidecar.errors import RequestError, Unauthorized
from sidecar.util import logs

INTERVAL = 60.0
MAX_ADDRESSES = 1_000
"""Addresses counted apart within one interval; further ones share a line."""
OTHERS = "others"
_log = logs.get("keys")


class RefusedKeys:
    """Counts refusals by client address. Used on one event loop."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._counts: dict[str, Counter[tuple[str, str]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, address: str, error: RequestError) -> None:
        """Log the first refusal of an address, and count the others."""
        kind = (error.reason, error.key_id or "") if isinstance(error, Unauthorized) else ("too many", "")
        if address not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            address = OTHERS
        if (counts := self._counts.get(address)) is not None:
            counts[kind] += 1
            return
        self._counts[address] = Counter()
        _write(address, Counter([kind]))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._flush)

    def close(self) -> None:
        """Log what was counted since the last lines, at the end of the process."""
        if self._timer is not None:
            self._timer.cancel()
            self._write_counts()

    def _flush(self) -> None:
        """Log what was counted. An address without a further refusal is new again when it comes back."""
        self._timer = None
        self._write_counts()
        if self._counts:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._flush)

    def _write_counts(self) -> None:
        previous, self._counts = self._counts, {}
        for address, counts in previous.items():
            if counts:
                self._counts[address] = Counter()
                _write(address, counts)


def _write(address: str, counts: Counter[tuple[str, str]]) -> None:
    reasons: Counter[str] = Counter()
    for (reason, _), number in counts.items():
        reasons[reason] += number
    facts = {"reasons": ", ".join(f"{reason} {number}" for reason, number in sorted(reasons.items()))}
    if ids := sorted({key_id for _, key_id in counts if key_id}):
        facts["key_ids"] = " ".join(ids)
    _log.warning("keys_refused", client=address, count=counts.total(), **facts)
