"""Supervised background tasks: kept alive, logged on failure, cancelled on close."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sidecar.util import logs

T = TypeVar("T")
RETRY_DELAY = 1.0
"""Minimum seconds before a failed step is retried."""
_log = logs.get("tasks")


class Background:
    """The background tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run once. The caller may await the task for its result or error, but need not."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def repeat(self, name: str, step: Callable[[], Awaitable[None]], interval: float) -> None:
        """Run `step` repeatedly, `interval` seconds apart; an error is logged and does not stop it."""
        self.spawn(_run_forever(name, step, interval))

    async def close(self) -> None:
        """Cancel running tasks and wait for them to end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved, so asyncio does not warn at exit


async def _run_forever(name: str, step: Callable[[], Awaitable[None]], interval: float) -> None:
    while True:
        try:
            succeeded = await _run_once(name, step)
            await asyncio.sleep(interval if succeeded else max(interval, RETRY_DELAY))
        except MemoryError:  # not enough memory to log the failure, or to sleep
            await asyncio.sleep(0)


async def _run_once(name: str, step: Callable[[], Awaitable[None]]) -> bool:
    try:
        await step()
    except Exception as error:  # noqa: BLE001 - supervision: any failure is retried
        # Any other message may quote a prompt.
        reason = {"reason": str(error)} if getattr(error, "holds_no_values", False) else {}
        _log.error("task_failed", task=name, kind=type(error).__name__, **reason)
        return False
    return True
