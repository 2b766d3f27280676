"""A bound on waiting that costs nothing where there is nothing to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
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
