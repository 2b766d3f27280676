"""How much memory a container's limit leaves to this process: version 1 or 2 of Linux's control groups.

Where a limit is exceeded, the kernel ends the process, whatever it catches. So the budget of bodies is bounded by what
is left at the start, of which a half remains for all that grows with use: automata, caches, buffers, fragments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sidecar.limits.control_groups import folders

FILES = ("memory.max", "memory.limit_in_bytes")
"""The file of the limit in version 2 and 1 of control groups."""
SHARE = 2


def headroom() -> int:
    """The most that bodies may take: half of what the limit leaves beside this process. Call it once, at the start."""
    limits = list(_limits())
    return max(0, min(limits) - _resident()) // SHARE if limits else sys.maxsize


def _limits() -> Iterator[int]:
    for folder in folders("memory"):
        for name in FILES:
            with suppress(OSError, ValueError):  # no such file, or the word `max`
                yield int((folder / name).read_text("ascii"))


def _resident() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
