"""A start that waits for the store, as long as it is away, instead of failing.

A process that ended would be started again with growing delays, and come back minutes after its store. Meanwhile the
admin port answers: the process is alive, not started and not ready, `/startup` and `/ready` have the reason, and the
store is down in the metrics. A startup probe has to be as patient as the start is to be. With several workers the
others may serve: then they answer alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from sidecar.config import Settings
from sidecar.errors import StoreUnavailable
from sidecar.observability.dependencies import Health
from sidecar.observability.worker_reports import WorkerReports
from sidecar.server.health import STARTING, Readiness, admin_routes
from sidecar.server.middleware import error_boundary
from sidecar.server.server import Site
from sidecar.storage import Store
from sidecar.util import logs

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
CLOSE_SECONDS = 1.0
Opened = TypeVar("Opened")
_log = logs.get("waiting")


@dataclass(slots=True)
class _AbsentStore:
    """The store that is waited for, as a dependency."""

    url: str
    problem: str

    async def probe(self) -> None:
        """Open it once. Raises `StoreError` other than `StoreUnavailable`: those do not pass by themselves."""
        try:
            await (await Store.open(self.url)).close()
        except StoreUnavailable as error:
            self.problem = str(error)
        else:
            self.problem = ""


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
    store, pause = _AbsentStore(settings.store.url, problem), FIRST_PAUSE
    alone = reports is None or not reports.is_any_running
    async with _probes(settings, store, reports) if alone else AsyncExitStack():
        while store.problem:
            _log.error("store_unreachable", reason=store.problem, again_in=pause)
            if await _stopped_within(stop, pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE)
            await store.probe()


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False


@asynccontextmanager
async def _probes(settings: Settings, store: _AbsentStore, reports: WorkerReports | None) -> AsyncIterator[None]:
    """The admin port with its probes and metrics alone, which are those of all workers once others serve."""
    Health(lambda: [("store", store)])
    readiness = Readiness(lambda: [STARTING, f"waits for the store: {store.problem}"], list, str, reports=reports)
    app = web.Application(middlewares=[error_boundary(traced=False)])
    app.add_routes(admin_routes(readiness))
    site = Site(app, settings.limits, CLOSE_SECONDS, settings.listen.trusted_proxies)
    await site.listen(settings.admin.host, settings.admin.port, share=reports is not None)
    try:
        yield
    finally:
        await site.close(CLOSE_SECONDS)
