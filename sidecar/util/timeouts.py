"""Timeouts that cost nothing when there is nothing to wait for, and heartbeats for idle streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def with_timeout(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` for at most `seconds`; else `TimeoutError`. No timer is set if it completes without suspending."""
    try:
        first = work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    try:
        async with asyncio.timeout(seconds):
            return await _resume(work, first)
    finally:
        work.close()


async def with_heartbeat(
    items: AsyncIterator[T], interval: float, enabled: Callable[[], bool]
) -> AsyncGenerator[T | None]:
    """Yield the items, and None whenever none arrives for `interval` seconds while `enabled()`.

    One task reads the whole stream, one item ahead: a task per item would add half the cost of scanning it. Closing
    the generator cancels the pending read. Invariant: the queue holds at most one element, either an item or a None.
    """
    ready: asyncio.Queue[tuple[T | None, BaseException | None]] = asyncio.Queue(1)
    reader, loop = asyncio.ensure_future(_pump(ready, items)), asyncio.get_running_loop()
    try:
        while True:
            heartbeat = loop.call_later(interval, _emit_heartbeat, ready) if ready.empty() and enabled() else None
            item, end = await ready.get()
            if heartbeat is not None:
                heartbeat.cancel()
            if isinstance(end, StopAsyncIteration):
                return
            if end is not None:
                raise end
            yield item
    finally:
        reader.cancel()
        await asyncio.wait({reader})


async def _pump(ready: asyncio.Queue[tuple[T | None, BaseException | None]], items: AsyncIterator[T]) -> None:
    """Put every item, then the error or `StopAsyncIteration` that ended them."""
    try:
        async for item in items:
            await ready.put((item, None))
    except Exception as error:  # noqa: BLE001 - raised again in the consumer
        await ready.put((None, error))
    else:
        await ready.put((None, StopAsyncIteration()))


def _emit_heartbeat(ready: asyncio.Queue[tuple[T | None, BaseException | None]]) -> None:
    if ready.empty():
        ready.put_nowait((None, None))


@coroutine
def _resume(work: Coroutine[Any, Any, T], awaited: object) -> Generator[Any, Any, T]:
    """Resume a started coroutine that is suspended on `awaited`."""
    while True:
        step: Callable[[], object]
        try:
            step = partial(work.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001 - passed on to the work, cancellations included
            step = partial(work.throw, error)
        try:
            awaited = step()
        except StopIteration as end:
            value: T = end.value
            return value
