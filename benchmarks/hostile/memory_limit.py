"""A real memory limit for a child process: a memory cgroup below our own where we may create one, else `RLIMIT_DATA`.

The cgroup counts what the process touches, and the kernel kills what exceeds it, as in a container. `RLIMIT_DATA`
counts what the process reserves, and lets its allocations fail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

MOUNTS = {"": "/sys/fs/cgroup", "memory": "/sys/fs/cgroup/memory"}
"""Where version 2 and the memory controller of version 1 are mounted, by the name in /proc/self/cgroup."""
MAXIMUM = ("memory.max", "memory.limit_in_bytes")
PEAK = ("memory.peak", "memory.max_usage_in_bytes")
KILLS = ("memory.events", "memory.oom_control")
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How the limit is enforced. `group`: the cgroup, if there is one."""

    size: int
    group: Path | None

    @property
    def description(self) -> str:
        """For the report."""
        return f"{self.size // 2**20} MiB by {'a memory cgroup' if self.group else 'RLIMIT_DATA'}"

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` under the limit."""
        if self.group is None:
            return ["prlimit", f"--data={self.size}", *command]
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.group), *command]

    def peak_mib(self) -> float | None:
        """The highest usage of the cgroup, with the files it has read or written; None without one."""
        text = _read(self.group, PEAK)
        return int(text) / 2**20 if text else None

    def kills(self) -> int | None:
        """How many processes the kernel killed for exceeding the limit; None without a cgroup."""
        lines = (_read(self.group, KILLS) or "").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


@contextmanager
def memory_limit(size: int) -> Iterator[MemoryLimit]:
    """A limit of `size` bytes; the cgroup is removed afterwards, when its processes have ended."""
    group = next(filter(None, (_new_group(parent, size) for parent in _own_groups())), None)
    try:
        yield MemoryLimit(size, group)
    finally:
        if group is not None:
            _remove(group)


def _own_groups() -> Iterator[Path]:
    lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers in MOUNTS:
            yield Path(MOUNTS[controllers] + path)


def _new_group(parent: Path, size: int) -> Path | None:
    group = parent / f"prompt-sidecar-{os.getpid()}-{next(_NUMBERS)}"
    try:
        group.mkdir()
    except OSError:
        return None
    for name in MAXIMUM:
        if (group / name).exists():
            with suppress(OSError):
                (group / name).write_text(str(size))
                return group
    with suppress(OSError):
        group.rmdir()
    return None


def _remove(group: Path) -> None:
    """The kernel needs a moment after the last process has ended."""
    for _ in range(100):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def _read(group: Path | None, names: Sequence[str]) -> str | None:
    paths = [group / name for name in names] if group else []
    return next((path.read_text("ascii") for path in paths if path.exists()), None)
