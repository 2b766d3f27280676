"""A start that waits for the store, as long as it is away, instead of failing.

A process that ended would be started again with growing delays, and come back minutes after its store. Meanwhile the
admin port answers: the process is alive, it is not ready, and `/ready` has the reason. `/startup` reports a start, so
that a startup probe does not end what is to wait. With several workers the others may serve: then they answer alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

from aiohttp import web

from sidecar.config import Settings
from sidecar.errors import StoreUnavailable
from sidecar.observability.worker_reports import WorkerReports
from sidecar.server.health import Readiness, admin_routes
from sidecar.server.middleware import error_boundary
from sidecar.server.server import Site
from sidecar.storage import Store
from sidecar.util import logs

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
CLOSE_SECONDS = 1.0
Opened = TypeVar("Opened")
_log = logs.get("waiting")


@asynccontextmanager
async def opened(
    make: Callable[[], AbstractAsyncContextManager[Opened]],
    settings: Settings,
    stop: asyncio.Event,
    reports: WorkerReports | None = None,
) -> AsyncIterator[Opened | None]:
    """What `make` opens, once the store can be used; None if `stop` came first. Other errors are raised."""
    async with AsyncExitStack() as stack:
        running = None
        while running is None and not stop.is_set():
            try:
                running = await stack.enter_async_context(make())
            except StoreUnavailable as error:
                await _wait(settings, stop, reports, str(error))
        yield running


async def _wait(settings: Settings, stop: asyncio.Event, reports: WorkerReports | None, problem: str) -> None:
    """Return once the store can be used, or on `stop`."""
    current, pause = problem, FIRST_PAUSE
    alone = reports is None or not reports.is_any_running
    async with _probes(settings, lambda: current, shared=reports is not None) if alone else AsyncExitStack():
        while True:
            _log.error("store_unreachable", reason=current, again_in=pause)
            if await _stopped_within(stop, pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                await (await Store.open(settings.store.url)).close()
            except StoreUnavailable as error:
                current = str(error)
            else:
                return


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False


@asynccontextmanager
async def _probes(settings: Settings, problem: Callable[[], str], *, shared: bool) -> AsyncIterator[None]:
    """The admin port with its probes and metrics alone."""
    readiness = Readiness(lambda: [f"waits for the store: {problem()}"], list, lambda: "")
    app = web.Application(middlewares=[error_boundary(traced=False)])
    app.add_routes(admin_routes(readiness))
    site = Site(app, settings.limits, CLOSE_SECONDS, settings.listen.trusted_proxies)
    await site.listen(settings.admin.host, settings.admin.port, share=shared)
    try:
        yield
    finally:
        await site.close(CLOSE_SECONDS)
