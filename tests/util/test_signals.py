"""Twin of sidecar/util/signals.py."""

from __future__ import annotations

import subprocess
import sys


def test_a_hang_up_during_the_start_ends_nothing() -> None:
    """SIGHUP before there is anything to reload is ignored, in the webhook for good; SIGTERM still stops."""
    script = """
import asyncio, os, signal
from sidecar.util.signals import stop_on_signal
async def main():
    stop = stop_on_signal()
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=100, check=False).returncode == 0
