"""The composition root: configuration in, a running application out."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from sidecar import limits
from sidecar.api import openapi
from sidecar.api.compat.envoy import PREFIX as ENVOY
from sidecar.api.compat.routes import switched_on
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.config.signing import read_signer
from sidecar.dashboard import Dashboard, Dependencies
from sidecar.dashboard.guard import allowed_hosts
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.decision_log import DecisionLog
from sidecar.decision_log.sink import Sink
from sidecar.errors import ConfigError, needs_extra
from sidecar.limits import MemoryBudget, container_memory
from sidecar.observability import tracing
from sidecar.observability.alert_webhook import AlertWebhook
from sidecar.observability.dependencies import PROBE_INTERVAL, Health, dependencies
from sidecar.observability.metrics import CHANGES_NOT_APPLIED, POLICY
from sidecar.observability.worker_reports import REPORT_INTERVAL, WorkerReports
from sidecar.policy import Policy
from sidecar.runtime import outbound
from sidecar.runtime.builder import ServerContext
from sidecar.runtime.protection import Protection
from sidecar.runtime.reload import Reloader, reloadable, watched_files
from sidecar.runtime.settings_trail import SettingsTrail
from sidecar.runtime.snapshot import SharedResources, Snapshot
from sidecar.scan.exceptions import RuleExceptions
from sidecar.server.access_log import access_log
from sidecar.server.allowed_hosts import allow_hosts, is_loopback
from sidecar.server.health import STARTING, Readiness, admin_routes, data_routes, quit_routes
from sidecar.server.in_process import in_process_handler
from sidecar.server.middleware import error_boundary, no_server_header
from sidecar.server.origins import CorsHeaders, allow_origins
from sidecar.server.ports import check_ports
from sidecar.server.receipts import add_receipt
from sidecar.server.server import Site
from sidecar.storage import Store
from sidecar.types import Dependency
from sidecar.util import logs
from sidecar.util.tasks import Background

VERDICTS = "verdicts"
NO_EXPIRY = timedelta(days=36_500)
MAX_RETIRING = 3
"""Old snapshots that may still serve requests; a further reload waits until one of them has finished."""
MIN_CLOSE_SECONDS = 0.5
"""Seconds that every listener gets to close, however long the others took."""
_log = logs.get("app")


class Sidecar:
    """A running sidecar: two listening sites over one snapshot. Use as an async context manager.

    `config_file` and every file that the settings name are watched; `read` reads the settings again. `reports`: with
    several workers, which share their ports.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reports: WorkerReports | None = None,
        config_file: Path | None = None,
        read: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self._read = read or (lambda: settings)
        self._latest = settings  # the settings read last, even if rejected: their files are watched
        self._reloader = Reloader(lambda: watched_files(self._latest, config_file), self._swap, self._reread)
        self._reports, self._share_ports = reports, reports is not None
        self.keyring: KeyRing
        self.store: Store
        self._dashboard_store: Store
        self._shared: SharedResources
        self._current: Snapshot
        self._readiness: Readiness
        self._protection: Protection
        self._trail: SettingsTrail
        self._health: Health
        self.data_port = 0
        self.admin_port = 0
        self.grpc_port: int | None = None
        self._body_budget, self._headroom = MemoryBudget(settings.limits.bodies), 0
        self._data_site: Site | None = None
        self._stack = AsyncExitStack()
        self._webhook: AlertWebhook | None = None
        self._state = STARTING
        self._drained = 0.0
        self._waiting: list[str] = []
        self._background = Background()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def policy(self) -> Policy:
        """The policies in force."""
        return self._current.policy

    def reload(self) -> None:
        """Reload settings and policies soon; problems are logged and the last good configuration stays in force."""
        self._reloader.request()

    async def __aenter__(self) -> Sidecar:
        """Open everything and listen; on any error close what was opened."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, let requests in flight finish within `drain.timeout`, close everything."""
        self._state = "draining"
        self._drained = asyncio.get_running_loop().time() + self.settings.drain.timeout
        _log.info("drain_started", timeout=self.settings.drain.timeout)
        await self._stack.aclose()
        late = asyncio.get_running_loop().time() > self._drained
        _log.info("drain_ended", cut_short=late)

    async def _start(self) -> None:
        settings, stack = self.settings, self._stack
        await check_ports(settings, share=self._share_ports)
        stack.push_async_callback(await tracing.start(settings.telemetry))
        signer = read_signer(settings.audit)
        self.store = await Store.open(settings.store.url, settings.store.connections, signer=signer)
        stack.push_async_callback(self.store.close)
        pages = settings.store.dashboard_connections
        self._dashboard_store = await Store.open(settings.store.url, pages, migrated=True, signer=signer)
        stack.push_async_callback(self._dashboard_store.close)
        secret = (await self.store.secrets.current(VERDICTS, datetime.now(UTC), NO_EXPIRY)).value
        self.keyring = KeyRing(self.store, settings.auth)
        await self.keyring.start()
        stack.push_async_callback(self.keyring.close)
        limiter = await limits.open(settings.limits.url)
        stack.push_async_callback(limiter.close)
        sinks = await stack.enter_async_context(outbound.sinks(settings.sinks))
        signs = signer if settings.audit.receipts else None
        decision_log = DecisionLog(self.store, settings.store, settings.log, sinks, signs)
        await decision_log.start()
        stack.push_async_callback(decision_log.close)
        exceptions = RuleExceptions(self.store)
        await exceptions.start()
        stack.push_async_callback(exceptions.close)
        server = ServerContext(secret, exceptions, self.store.disagreements, pins=self.store.pins)
        self._shared = SharedResources(self.keyring, limiter, decision_log, server)
        stack.callback(self._shared.refused_keys.close)
        await self._install(settings)
        stack.push_async_callback(self._retire_all)
        await self._reloader.start()
        stack.push_async_callback(self._reloader.close)
        self._readiness = self._make_readiness(decision_log)
        self._watch_dependencies()
        self._trail = SettingsTrail(self.store, secret, writes=self._reports is None or self._reports.is_first)
        await self._trail.started(settings, self.policy.revision)
        self._protection = Protection(lambda: self._current.settings, self.store.keys.with_terms)
        await self._protection.start()
        stack.push_async_callback(self._protection.close)
        problems = partial(self._trouble, decision_log, sinks)
        reductions = self._protection.latest
        alerts = outbound.alerts(settings, problems, reductions, decision_log, self.store)
        self._webhook = await stack.enter_async_context(alerts)
        await self._report_to_workers()
        await self._listen(self._data_app(), self._admin_app(limiter, exceptions))
        self._readiness.publish()

    def _data_app(self) -> web.Application:
        app = web.Application(
            middlewares=[
                *access_log(self.settings),
                error_boundary(self._body_budget),
                self._host_filter(),
                allow_origins(self.settings.listen.origins, self.settings.listen.hosts),
            ]
        )
        app.on_response_prepare.append(CorsHeaders(self.settings.listen.origins))
        app.on_response_prepare.append(no_server_header)
        if self.settings.audit.receipts:
            app.on_response_prepare.append(add_receipt)
        app.add_routes(data_routes())

        app.router.add_route("*", "/{tail:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        return await self._current.serve(request)

    def _host_filter(self) -> Middleware:
        listen = self.settings.listen
        exempt_prefix = f"{ENVOY}/" if self.settings.compat.envoy else None
        return allow_hosts(listen.hosts, listen=listen.host, exempt_prefix=exempt_prefix)

    def _admin_app(self, limiter: limits.Limiter, exceptions: RuleExceptions) -> web.Application:
        dependencies = Dependencies(
            self.settings,
            self._dashboard_store,
            self.keyring,
            limiter,
            lambda: self._current.engine,
            lambda: self.policy,
            exceptions,
            self._service_status,
            lambda: openapi.page(switched_on(self.settings) | {openapi.ADMIN}),
            lambda: {name: scanner.engine for name, scanner in self._current.scanners.items()},
            self._webhook.test if self._webhook else None,
        )
        dashboard = Dashboard(dependencies)
        admin = self.settings.admin
        # Probes and scrapes use the pod address as Host, so only a loopback port can be limited to its own names.
        guarded = [allow_hosts(allowed_hosts(admin), setting="admin.url")] if is_loopback(admin.host) else []
        app = web.Application(middlewares=[error_boundary(traced=False), *guarded, dashboard.middleware()])
        app.on_response_prepare.append(no_server_header)
        app.add_routes(admin_routes(self._readiness))
        app.add_routes(openapi.admin_routes(lambda: switched_on(self.settings)))
        app.add_routes(dashboard.routes())
        if self.settings.admin.quit:
            app.add_routes(quit_routes())
        return app

    async def _reread(self) -> None:
        self._latest = await asyncio.to_thread(self._read)

    async def _swap(self) -> None:
        """Switch to a new snapshot; the old one closes after its last request."""
        settings, waiting = reloadable(self.settings, self._latest)
        if len(self._retiring) >= MAX_RETIRING:
            await asyncio.wait(self._retiring, return_when=asyncio.FIRST_COMPLETED)
        old = self._current
        await self._install(settings)
        revisions = old.policy.revision, self.policy.revision
        self._background.spawn(self._trail.changed(self.settings, settings, revisions))
        self.settings, self._waiting = settings, waiting
        CHANGES_NOT_APPLIED.labels("restart").set(len(waiting))
        if waiting:
            _log.warning("restart_needed", settings=" ".join(waiting))
        self._protection.publish()
        task = self._background.spawn(old.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _install(self, settings: Settings) -> None:
        self._current = await Snapshot.open(settings, self._shared)
        self._headroom = self._headroom or container_memory.headroom()
        self._body_budget.total = min(settings.limits.bodies, self._headroom)
        POLICY.clear()
        POLICY.labels(self.policy.revision).set(1)

    async def _retire_all(self) -> None:
        """Called after the listeners have closed; remaining requests were cancelled."""
        await self._current.retire()
        await asyncio.gather(*self._retiring, return_exceptions=True)

    def _watch_dependencies(self) -> None:
        self._health, probing = Health(self._dependencies), Background()
        probing.repeat("dependencies_probe", self._health.probe, PROBE_INTERVAL)
        self._stack.push_async_callback(probing.close)

    def _make_readiness(self, decision_log: DecisionLog) -> Readiness:
        return Readiness(
            lambda: self._problems(decision_log),
            self._degradations,
            lambda: self.policy.revision,
            self._status_fields,
            self._reports,
            lambda: self._webhook.history if self._webhook else (),
        )

    async def _report_to_workers(self) -> None:
        """Publish the state of this worker until the end, and once more then."""
        if self._reports is None:
            return

        async def publish() -> None:
            self._readiness.publish()

        reporting = Background()
        reporting.repeat("worker_report", publish, REPORT_INTERVAL)
        self._stack.push_async_callback(publish)
        self._stack.push_async_callback(reporting.close)

    def _degradations(self) -> list[str]:
        waiting = f"changed settings wait for a restart: {', '.join(self._waiting)}" if self._waiting else None
        found = (self._reloader.state.rejected, waiting)
        return [*self._current.degraded, *self._health.problems(), *(problem for problem in found if problem)]

    def _service_status(self) -> ServiceStatus:
        """What the dashboard shows first."""
        current, reload = self._current, self._reloader.state
        status = self._readiness.status()
        return ServiceStatus(
            settings=current.settings,
            layers={stage.layer.name: stage.decides for stage in current.engine.stages},
            revision=current.policy.revision,
            rules=len(current.policy.rules),
            problems=tuple(status.problems),
            degraded=tuple(status.degraded),
            generation=reload.generation,
            loaded_at=reload.at,
            rejected=reload.reason if reload.rejected else "",
            waiting=tuple(self._waiting),
            alerts=tuple(status.alerts),
        )

    def _trouble(self, decision_log: DecisionLog, sinks: Sequence[Sink]) -> list[str]:
        """What an alert reports: whatever `/ready` has, but a start or a drain, which are meant."""
        if self._state != "serving":
            return []
        waiting = [sink.problem for sink in sinks if sink.problem]
        return [*self._problems(decision_log), *self._degradations(), *waiting]

    def _dependencies(self) -> tuple[tuple[str, Dependency], ...]:
        stores = ("store", self.store), ("store", self._shared.decision_log)
        shared = dependencies(*stores, ("redis", self._shared.limiter))
        return *shared, *self._current.dependencies

    def _status_fields(self) -> dict[str, object]:
        return {"generation": self._reloader.state.generation, "restart_needed_for": self._waiting}

    def _problems(self, decision_log: DecisionLog) -> list[str]:
        problems = [self._state] if self._state != "serving" else []
        problems += ["no room for connections (limits.connections)"] if self._data_site and self._data_site.full else []
        return problems if decision_log.healthy else [*problems, "scan log cannot be written"]

    async def _listen(self, data: web.Application, admin: web.Application) -> None:
        settings, drain = self.settings, self.settings.drain.timeout
        # Sites close in reverse order: /ready still answers while the data port drains.
        admin_site = Site(admin, settings.limits, drain, settings.listen.trusted_proxies)
        self._stack.push_async_callback(self._close_site, admin_site.close)
        self.admin_port = await admin_site.listen(settings.admin.host, settings.admin.port, share=self._share_ports)
        self._data_site = data_site = Site(data, settings.limits, drain, settings.listen.trusted_proxies)
        self._stack.push_async_callback(self._close_site, data_site.close)
        self.data_port = await data_site.listen(settings.listen.host, settings.listen.port, share=self._share_ports)
        if settings.listen.grpc_port is not None:
            await self._listen_for_envoy(settings.listen.grpc_port, data)
        self._state = "serving"
        _log.info("listen_started", host=settings.listen.host, port=self.data_port, admin_port=self.admin_port)

    async def _close_site(self, close: Callable[[float], Awaitable[None]]) -> None:
        """Close a site within the remaining time of the common drain deadline."""
        await close(max(MIN_CLOSE_SECONDS, self._drained - asyncio.get_running_loop().time()))

    async def _listen_for_envoy(self, port: int, data: web.Application) -> None:
        try:
            from sidecar.api.compat.envoy_grpc import EnvoyGrpc  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigError("listen.grpc_port", [needs_extra("grpc")]) from None
        handler = in_process_handler(data, self._serve)
        checks = EnvoyGrpc(self.settings, handler, lambda: self.settings.compat.envoy)
        self._stack.push_async_callback(self._close_site, checks.close)
        self.grpc_port = await checks.listen(port, share=self._share_ports)


def reload_on_signal(running: Sidecar) -> None:
    """Reload settings and policies on SIGHUP, which then never ends the process."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, running.reload)
