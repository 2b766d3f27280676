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
    """The same items, and None where none comes for so long while `minds()`. Who leaves early closes `items`, too."""
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            if coming is None:
                coming = asyncio.ensure_future(_next(items)) if minds() else None
            if coming is not None and minds() and not (await asyncio.wait({coming}, timeout=seconds))[0]:
                yield None
                continue
            try:
                item = await coming if coming is not None else await anext(items)
            except StopAsyncIteration:
                return
            coming = None
            yield item
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


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
