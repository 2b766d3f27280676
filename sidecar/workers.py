"""Several worker processes on one port: started, watched, restarted and stopped together.

The kernel spreads connections over the workers (SO_REUSEPORT). Each is a whole sidecar; what they share
is the store, and Redis where configured. A worker that dies is started again, ever more slowly while it
keeps dying, so that a broken start does not spin.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from sidecar import logs

_log = logs.get("workers")
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
STEADY = 30.0


async def supervise(config_file: Path | None, count: int) -> int:
    """Run `count` workers until SIGTERM or SIGINT; returns 0, or the code of a worker that cannot start."""
    stop, alive = asyncio.Event(), set[asyncio.subprocess.Process]()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _hang_up, alive)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    codes = await asyncio.gather(*(_keep(config_file, index, stop, alive) for index in range(count)))
    return max(codes)


def _hang_up(alive: set[asyncio.subprocess.Process]) -> None:
    """SIGHUP is handed on: each worker reads settings and policies again."""
    for process in alive:
        process.send_signal(signal.SIGHUP)


def _command(config_file: Path | None, index: int) -> list[str]:
    chosen = ["--config", str(config_file)] if config_file else []
    first = "--first-key" if index == 0 else "--no-first-key"
    return [sys.executable, "-m", "sidecar", "serve", "--worker", first, *chosen]


async def _keep(
    config_file: Path | None, index: int, stop: asyncio.Event, alive: set[asyncio.subprocess.Process]
) -> int:
    """Keep one worker running. A configuration error (exit code 2) stops all: no restart mends it."""
    pause = FIRST_PAUSE
    while not stop.is_set():
        begun = asyncio.get_running_loop().time()
        process = await asyncio.create_subprocess_exec(*_command(config_file, index))
        alive.add(process)
        code = await _watch(process, stop)
        alive.discard(process)
        if stop.is_set():
            return 0
        if code == 2:
            stop.set()
            return 2
        steady = asyncio.get_running_loop().time() - begun > STEADY
        pause = FIRST_PAUSE if steady else min(pause * 2, LONGEST_PAUSE)
        _log.error("worker_died", worker=index, code=code, restart_in=pause)
        await _sleep(pause, stop)
    return 0


async def _watch(process: asyncio.subprocess.Process, stop: asyncio.Event) -> int:
    """Wait for the worker to end, or for the stop signal, which it is handed on."""
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(process.wait())
        stopped = group.create_task(stop.wait())
        await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.terminate()
        code = await ended
        stopped.cancel()
    return code


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
