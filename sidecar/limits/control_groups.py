"""The control groups of Linux, version 1 or 2, that limit this process: its own and those that contain it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def folders(controller: str, proc: Path = PROC, mount: Path = MOUNT) -> Iterator[Path]:
    """Where the files of a controller may be, such as `memory` or `cpu`; none elsewhere than on Linux.

    A folder need not exist: the namespace of a container may not show it.
    """
    with suppress(OSError):
        for line in proc.read_text("ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                group = (mount / controller if controllers else mount) / path.lstrip("/")
                yield from (group, *group.parents)
