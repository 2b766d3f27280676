"""How many processors this process may use: those it may run on, and the share that a container's limit gives it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def available(proc: Path = PROC, mount: Path = MOUNT) -> int:
    """A whole number, at least 1: a limit of 1.5 processors counts as 2, since one process would leave a half idle.

    `proc`: the control groups of this process, version 1 or 2; `mount`: where they are mounted.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(share) for share in _shares(proc, mount))]))


def _shares(proc: Path, mount: Path) -> Iterator[float]:
    """The limits of this process's groups and of those that contain them; none elsewhere than on Linux."""
    with suppress(OSError):
        for line in proc.read_text("ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _shares_of(mount, path, ("cpu.max",))
            elif "cpu" in controllers.split(","):
                yield from _shares_of(mount / "cpu", path, ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def _shares_of(root: Path, path: str, names: tuple[str, ...]) -> Iterator[float]:
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # no such group in this namespace, or the word `max`
            quota, period = " ".join((folder / name).read_text("ascii") for name in names).split()
            if int(quota) > 0 and int(period) > 0:
                yield int(quota) / int(period)
