"""Twin of sidecar/limits/container_memory.py, in processes under a real limit where this machine allows one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.hostile.memory_limit import memory_limit
from sidecar.limits.container_memory import headroom

MIB = 2**20
PRINT = "from sidecar.limits.container_memory import headroom; print(headroom())"


def headroom_under(limit_mib: int) -> int:
    """What a small process finds under this limit."""
    with memory_limit(limit_mib * MIB) as limit:
        if limit.group is None:
            pytest.skip("no memory cgroup can be made here")
        command = limit.command([sys.executable, "-c", PRINT])
        return int(subprocess.run(command, check=True, capture_output=True).stdout)


def test_a_limit_bounds_the_budget() -> None:
    """Half of what the process leaves of the limit."""
    small, large = headroom_under(256), headroom_under(512)
    assert 50 * MIB < small < 128 * MIB
    assert 110 * MIB < large - small < 146 * MIB


def test_a_process_whose_limit_is_exceeded_has_none() -> None:
    """Never a negative number, and there is a number on every system."""
    assert headroom() >= 0
