"""Tests of the memory reserve, in processes with a memory limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import asyncio, resource
from sidecar.limits.memory_reserve import SIZE, MemoryReserve
from sidecar.limits.memory_budget import SMALL_BODY, OverBudget, MemoryBudget

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def limit(headroom):
    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + headroom, -1))

def fails(size):
    try:
        bytearray(size)
    except MemoryError:
        return True
    return False
"""
RESERVE = """
before = resident()
reserve = MemoryReserve()
assert resident() - before < 1_000_000
limit(2**20)
assert reserve.held and reserve.acquire() and fails(SIZE // 2)
reserve.release()
assert not reserve.held
reserve.release()
allocated = bytearray(SIZE // 2)
assert not reserve.acquire()
del allocated
assert reserve.acquire() and reserve.held and fails(SIZE // 2)
"""
STARVED = """
async def main():
    budget = MemoryBudget(10_000_000)
    limit(2**20)
    budget.release_reserve()
    allocated = bytearray(SIZE // 2)
    with budget.reserve() as small, budget.reserve() as large:
        await small.resize(SMALL_BODY)
        started = asyncio.get_running_loop().time()
        try:
            await large.resize(SMALL_BODY + 1)
        except OverBudget:
            assert asyncio.get_running_loop().time() - started < 1
        else:
            raise AssertionError
        del allocated
        await large.resize(SMALL_BODY + 1)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
@pytest.mark.parametrize("script", [RESERVE, STARVED], ids=["reserve", "budget"])
def test_the_released_reserve_is_usable_until_it_is_acquired_again(script: str) -> None:
    """It takes no memory; while released, small bodies are admitted, others rejected at once; then it is reacquired."""
    process = subprocess.run([sys.executable, "-c", PRELUDE + script], capture_output=True, check=False, text=True)
    assert (process.returncode, process.stderr) == (0, "")
