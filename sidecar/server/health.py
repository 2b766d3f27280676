"""Probes and metrics: `/health` checks no dependency, `/ready` lists problems, `/metrics` is for Prometheus."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sidecar.observability.metrics import READY, REGISTRY
from sidecar.util import json

Problems = Callable[[], Sequence[str]]
LOOPBACK = {"127.0.0.1", "::1"}
STARTING = "starting"
"""The problem reported until startup is complete."""


async def health(_request: web.Request) -> web.Response:
    """Liveness: the process responds. No dependency is checked."""
    return web.json_response({"status": "ok"})


async def metrics(_request: web.Request) -> web.Response:
    """All metrics of this process, in Prometheus' text format."""
    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Readiness:
    """Answers `/ready` and `/startup` from functions that list problems that forbid traffic, and degradations.

    `details`: further fields of `/ready`.
    """

    def __init__(
        self,
        problems: Problems,
        degraded: Problems,
        revision: Callable[[], str],
        details: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._problems = problems
        self._degraded = degraded
        self._revision = revision
        self._details = details
        READY.set_function(lambda: 0.0 if self._problems() else 1.0)

    async def ready(self, _request: web.Request) -> web.Response:
        """200 if ready (`ok`, or `degraded` if the policy allows), else 503; with problems and revision."""
        problems, degraded = list(self._problems()), list(self._degraded())
        body = {
            "status": "not ready" if problems else "degraded" if degraded else "ok",
            "problems": problems + degraded,
            "policy_revision": self._revision(),
            **self._details(),
        }
        return web.Response(status=503 if problems else 200, body=json.dumps(body), content_type="application/json")

    async def startup(self, _request: web.Request) -> web.Response:
        """200 once models and policies are loaded and self-tested and the ports are open, whatever happens later."""
        starting = STARTING in self._problems()
        return web.json_response({"status": STARTING if starting else "started"}, status=503 if starting else 200)


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
        web.get("/metrics", metrics),
    ]
