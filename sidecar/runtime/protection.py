"""What lets more pass than the defaults, now: kept for the metric, the alert and the log.

The settings are those in force. Keys are read again every `INTERVAL`, since they also change by other processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from sidecar.config import Settings
from sidecar.errors import StoreError
from sidecar.observability.metrics import PROTECTION_REDUCED
from sidecar.policy.reductions import REASONS, Reduction, reductions
from sidecar.storage import ApiKey
from sidecar.util import logs
from sidecar.util.tasks import Background

INTERVAL = 15.0
"""Seconds between two looks at the keys."""
_log = logs.get("protection")


class Protection:
    """The reductions in force. `settings` and `keys` return the latest ones; `start` it once there are settings."""

    def __init__(self, settings: Callable[[], Settings], keys: Callable[[], Awaitable[Sequence[ApiKey]]]) -> None:
        self._settings, self._read_keys = settings, keys
        self._keys: Sequence[ApiKey] = ()
        self._reductions: list[Reduction] = []
        self._background = Background()

    async def start(self) -> None:
        """Look once, and then again and again until `close`."""
        await self.look()
        self._background.repeat("protection", self.look, INTERVAL)

    async def close(self) -> None:
        """Look no more."""
        await self._background.close()

    async def look(self) -> None:
        """Read the keys and publish; while the store is away the keys are as they were."""
        with suppress(StoreError):
            self._keys = await self._read_keys()
        self.publish()

    def latest(self) -> Sequence[Reduction]:
        """Those of the last look."""
        return self._reductions

    def publish(self) -> None:
        """Set the metric, and log what is new and what is over."""
        before, self._reductions = self._reductions, reductions(self._settings(), self._keys)
        for reason in REASONS:
            PROTECTION_REDUCED.labels(reason).set(sum(reduction.reason == reason for reduction in self._reductions))
        for reduction in self._reductions:
            if reduction not in before:
                _log.warning("protection_reduced", reason=reduction.reason, what=reduction.text)
        for reduction in before:
            if reduction not in self._reductions:
                _log.info("protection_restored", reason=reduction.reason, what=reduction.text)
