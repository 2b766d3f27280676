"""A bound on waiting that costs nothing where there is nothing to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns. Raises `TimeoutError` if it takes longer; no timer is set if it never waits at all."""
    try:
        first = work.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    try:
        async with asyncio.timeout(seconds):
            return await _rest(work, first)
    finally:
        work.close()


async def paused(items: AsyncIterator[T], seconds: float, minds: Callable[[], bool]) -> AsyncGenerator[T | None]:
    """The same items, and None where none comes for so long while `minds()`. Closing it gives up the item to come.

    One task reads for the whole stream, an item ahead: a task for each would cost half as much as looking at it.
    """
    ready: asyncio.Queue[tuple[T | None, BaseException | None]] = asyncio.Queue(1)
    reader, loop = asyncio.ensure_future(_read_into(ready, items)), asyncio.get_running_loop()
    try:
        while True:
            silence = loop.call_later(seconds, _say_nothing, ready) if ready.empty() and minds() else None
            item, ended = await ready.get()
            if silence is not None:
                silence.cancel()
            if isinstance(ended, StopAsyncIteration):
                return
            if ended is not None:
                raise ended
            yield item
    finally:
        reader.cancel()
        await asyncio.wait({reader})


async def _read_into(ready: asyncio.Queue[tuple[T | None, BaseException | None]], items: AsyncIterator[T]) -> None:
    """Every item, and then how they ended."""
    try:
        async for item in items:
            await ready.put((item, None))
    except Exception as error:  # noqa: BLE001 - it is raised where the items are taken
        await ready.put((None, error))
    else:
        await ready.put((None, StopAsyncIteration()))


def _say_nothing(ready: asyncio.Queue[tuple[T | None, BaseException | None]]) -> None:
    if ready.empty():
        ready.put_nowait((None, None))


@coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: object) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has begun and `waits_for` something."""
    while True:
        step: Callable[[], object]
        try:
            step = partial(work.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001 - it belongs to the work, as does a cancellation
            step = partial(work.throw, error)
        try:
            waits_for = step()
        except StopIteration as ended:
            value: T = ended.value
            return value
