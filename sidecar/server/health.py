"""Probes and metrics: `/health` checks no dependency, `/ready` lists problems, `/metrics` is for Prometheus."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sidecar.observability.alert_history import SentAlert, problem_of
from sidecar.observability.metrics import READY, REGISTRY
from sidecar.observability.worker_reports import Status, WorkerReports
from sidecar.util import json

Problems = Callable[[], Sequence[str]]
LOOPBACK = {"127.0.0.1", "::1"}
STARTING = "starting"
"""The problem reported until startup is complete."""


async def health(_request: web.Request) -> web.Response:
    """Liveness: the process responds. No dependency is checked."""
    return web.json_response({"status": "ok"})


class Readiness:
    """Answers `/ready`, `/startup` and `/metrics` from functions that list problems and degradations.

    Problems forbid traffic. `details`: further fields of `/ready`. `reports`: those of all workers, for which the one
    that is asked answers. `alerts`: the newest ones of this process; if the newest of all was not sent, that degrades.
    """

    def __init__(
        self,
        problems: Problems,
        degraded: Problems,
        revision: Callable[[], str],
        details: Callable[[], Mapping[str, object]] = dict,
        reports: WorkerReports | None = None,
        alerts: Callable[[], Sequence[SentAlert]] = tuple,
    ) -> None:
        self._alerts = alerts
        self._problems = problems
        self._degraded = degraded
        self._revision = revision
        self._details = details
        self._reports = reports
        READY.set_function(lambda: 0.0 if self._problems() else 1.0)

    def publish(self) -> None:
        """Tell the other workers the state of this one."""
        if self._reports is not None:
            self._reports.publish(self._own_status())

    def _own_status(self) -> Status:
        problems = self._problems()
        return Status(problems, self._degraded(), STARTING in problems, self._alerts())

    def status(self) -> Status:
        """What `/ready` reports, of this process or of all workers; why this one starts, where none serves yet."""
        status = self._status()
        unsent = problem_of(status.alerts)
        return replace(status, degraded=[*status.degraded, unsent]) if unsent else status

    def _status(self) -> Status:
        if self._reports is None:
            return self._own_status()
        self.publish()
        status = self._reports.status()
        return self._own_status() if status.starting else status

    async def ready(self, _request: web.Request) -> web.Response:
        """200 if ready (`ok`, or `degraded` if the policy allows), else 503; with problems and revision."""
        status = self.status()
        body = {
            "status": "not ready" if status.problems else "degraded" if status.degraded else "ok",
            "problems": [*status.problems, *status.degraded],
            "policy_revision": self._revision(),
            **self._details(),
        }
        code = 503 if status.problems else 200
        return web.Response(status=code, body=json.dumps(body), content_type="application/json")

    async def startup(self, _request: web.Request) -> web.Response:
        """200 once models and policies are loaded and self-tested and the ports are open, whatever happens later.

        Until then 503, with what is waited for in `problems`.
        """
        status = self.status()
        if not status.starting:
            return web.json_response({"status": "started", "problems": []})
        problems = [problem for problem in status.problems if problem != STARTING]
        return web.json_response({"status": STARTING, "problems": problems}, status=503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """All metrics of this process, or of all workers, in Prometheus' text format."""
        self.publish()
        body = generate_latest(REGISTRY) if self._reports is None else self._reports.metrics()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def quit_process(request: web.Request) -> web.Response:
    """Shut down as on SIGTERM. For other containers of the pod: requests from the network or web pages are refused."""
    if request.remote not in LOOPBACK or "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        raise web.HTTPForbidden
    os.kill(os.getpid(), signal.SIGTERM)
    return web.json_response({"status": "draining"}, status=202)


def data_routes() -> list[web.RouteDef]:
    """Routes of the data port apart from its APIs."""
    return [web.get("/health", health)]


def quit_routes() -> list[web.RouteDef]:
    """Routes of the admin port if `admin.quit` is set."""
    return [web.post("/quit", quit_process)]


def admin_routes(readiness: Readiness) -> list[web.RouteDef]:
    """Routes of the admin port."""
    return [
        web.get("/health", health),
        web.get("/ready", readiness.ready),
        web.get("/startup", readiness.startup),
        web.get("/metrics", readiness.metrics),
    ]
