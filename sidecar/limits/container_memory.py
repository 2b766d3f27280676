"""How much memory a container's limit leaves to this process: version 1 or 2 of Linux's control groups.

Where a limit is exceeded, the kernel ends the process, whatever it catches. So the budget of bodies is bounded by what
is left at the start, of which a half remains for all that grows with use: automata, caches, buffers, fragments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOUNTS = {"": ("/sys/fs/cgroup", "memory.max"), "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")}
"""Where the groups are mounted and the file of the limit, by the controller's name in /proc/self/cgroup."""
SHARE = 2


def headroom() -> int:
    """The most that bodies may take: half of what the limit leaves beside this process. Call it once, at the start."""
    limits = list(_limits())
    return max(0, min(limits) - _resident()) // SHARE if limits else sys.maxsize


def _limits() -> Iterator[int]:
    """The limits of this process's groups and of those that contain them; none elsewhere than on Linux."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("ascii").splitlines():
            _, controller, path = line.split(":", 2)
            if controller in MOUNTS:
                mount, name = MOUNTS[controller]
                group = Path(mount + path)
                yield from _limits_of([group, *group.parents], name)


def _limits_of(groups: list[Path], name: str) -> Iterator[int]:
    for group in groups:
        with suppress(OSError, ValueError):  # no such group in this namespace, or the word `max`
            yield int((group / name).read_text("ascii"))


def _resident() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
