"""Twin of sidecar/limits/memory_reserve.py, in processes that are given no more memory than they have."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import asyncio, resource
from sidecar.limits.memory_reserve import SIZE, Reserve
from sidecar.limits.memory_budget import SMALL, NoRoom, Room

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def limit(more):
    held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + more, -1))

def fails(size):
    try:
        bytearray(size)
    except MemoryError:
        return True
    return False
"""
LET_GO = """
before = resident()
reserve = Reserve()
assert resident() - before < 1_000_000
limit(2**20)
assert reserve.kept and reserve.keep() and fails(SIZE // 2)
reserve.let_go()
assert not reserve.kept
reserve.let_go()
taken = bytearray(SIZE // 2)
assert not reserve.keep()
del taken
assert reserve.keep() and reserve.kept and fails(SIZE // 2)
"""
STARVED = """
async def main():
    room = Room(10_000_000)
    limit(2**20)
    room.starve()
    taken = bytearray(SIZE // 2)
    with room.lease() as small, room.lease() as large:
        await small.hold(SMALL)
        begun = asyncio.get_running_loop().time()
        try:
            await large.hold(SMALL + 1)
        except NoRoom:
            assert asyncio.get_running_loop().time() - begun < 1
        else:
            raise AssertionError
        del taken
        await large.hold(SMALL + 1)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
@pytest.mark.parametrize("script", [LET_GO, STARVED], ids=["reserve", "room"])
def test_what_is_let_go_is_there_for_others_until_it_can_be_had_again(script: str) -> None:
    """It takes no memory; while it is away small bodies are let in, others refused at once; it comes back by itself."""
    done = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
