"""How many processors this process may use: those it may run on, and the share that a container's limit gives it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sidecar.limits.control_groups import MOUNT, PROC, folders

FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""The files that hold quota and period, in version 2 and 1 of control groups."""


def available(proc: Path = PROC, mount: Path = MOUNT) -> int:
    """A whole number, at least 1: a limit of 1.5 processors counts as 2, since one process would leave a half idle."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(share) for share in _shares(proc, mount))]))


def _shares(proc: Path, mount: Path) -> Iterator[float]:
    for folder in folders("cpu", proc, mount):
        for names in FILES:
            with suppress(OSError, ValueError):  # no such file, or the word `max`
                quota, period = " ".join((folder / name).read_text("ascii") for name in names).split()
                if int(quota) > 0 and int(period) > 0:
                    yield int(quota) / int(period)
