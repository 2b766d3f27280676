"""Background work that is supervised: kept alive, logged when it fails, ended on close."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sidecar.util import logs

T = TypeVar("T")
AFTER_ERROR = 1.0
"""Seconds until what failed is tried again, at least."""
_log = logs.get("tasks")


class Background:
    """The tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run once. Whoever holds the task gets its result or its error; nobody needs to."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def repeat(self, name: str, step: Callable[[], Awaitable[None]], pause: float) -> None:
        """Run `step`, wait `pause` seconds, again and again; an error is logged and does not end it."""
        self.spawn(_forever(name, step, pause))

    async def close(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: an error that nobody waits for is no surprise at exit


async def _forever(name: str, step: Callable[[], Awaitable[None]], pause: float) -> None:
    while True:
        try:
            done = await _once(name, step)
            await asyncio.sleep(pause if done else max(pause, AFTER_ERROR))
        except MemoryError:  # not enough to tell of the first one, or to wait
            await asyncio.sleep(0)


async def _once(name: str, step: Callable[[], Awaitable[None]]) -> bool:
    try:
        await step()
    except Exception as error:  # noqa: BLE001 - supervision: whatever fails is tried again
        _log.error("task_failed", task=name, kind=type(error).__name__)
        return False
    return True
