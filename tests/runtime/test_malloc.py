"""Twin of sidecar/runtime/malloc.py: freed memory goes back, and what was there at the start is left alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHURN = """
import sys, threading
from sidecar.runtime import malloc
if sys.argv[1] == "bounded":
    malloc.tune()
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
bytearray(30_000_000)  # from now on glibc keeps what is smaller
before = resident()
blocks = [bytearray(1_000_000) for _ in range(50)]
del blocks
print(resident() - before)
"""
FROZEN = """
import gc
from sidecar.runtime import malloc
malloc.trim()
print(gc.get_freeze_count() > 10 * len(gc.get_objects()))
"""


def run(*arguments: str) -> str:
    """What a process says."""
    return subprocess.check_output([sys.executable, "-c", *arguments], text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_given_back() -> None:
    """Large blocks once are no reason to keep fifty megabytes for ever: without the bound they stay."""
    assert int(run(CHURN, "free")) > 30_000_000
    assert int(run(CHURN, "bounded")) < 8_000_000


def test_what_was_there_at_the_start_is_not_collected_again() -> None:
    """It is out of the collector's sight."""
    assert run(FROZEN).strip() == "True"
