"""Probes and metrics: `/health` touches nothing, `/ready` says why not, `/metrics` is for Prometheus."""

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
"""The problem that a start has until it is over."""


async def health(_request: web.Request) -> web.Response:
    """Alive: the process answers. No dependency is asked."""
    return web.json_response({"status": "ok"})


async def metrics(_request: web.Request) -> web.Response:
    """All series of this process, in Prometheus' text format."""
    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Readiness:
    """Answers `/ready` and `/startup` from functions that list what forbids traffic, and what is only missed.

    `more`: what else `/ready` says.
    """

    def __init__(
        self,
        problems: Problems,
        degraded: Problems,
        revision: Callable[[], str],
        more: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._problems = problems
        self._degraded = degraded
        self._revision = revision
        self._more = more

    async def ready(self, _request: web.Request) -> web.Response:
        """200 when traffic may come (`ok`, or `degraded` as the policy allows), else 503; with reasons and revision."""
        problems, degraded = list(self._problems()), list(self._degraded())
        READY.set(0 if problems else 1)
        body = {
            "status": "not ready" if problems else "degraded" if degraded else "ok",
            "problems": problems + degraded,
            "policy_revision": self._revision(),
            **self._more(),
        }
        return web.Response(status=503 if problems else 200, body=json.dumps(body), content_type="application/json")

    async def startup(self, _request: web.Request) -> web.Response:
        """200 once models and policies are loaded and proved and the doors are open, whatever happens later."""
        starting = STARTING in self._problems()
        return web.json_response({"status": STARTING if starting else "started"}, status=503 if starting else 200)


async def end(request: web.Request) -> web.Response:
    """End as on SIGTERM. For neighbours in the pod: who comes over the network, or from a web page, is refused."""
    if request.remote not in LOOPBACK or "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        raise web.HTTPForbidden
    os.kill(os.getpid(), signal.SIGTERM)
    return web.json_response({"status": "draining"}, status=202)


def data_routes() -> list[web.RouteDef]:
    """What the data port answers beside its doors."""
    return [web.get("/health", health)]


def quit_routes() -> list[web.RouteDef]:
    """What the admin port answers where `admin.quit` says so."""
    return [web.post("/quit", end)]


def admin_routes(readiness: Readiness) -> list[web.RouteDef]:
    """What the admin port answers."""
    return [
        web.get("/health", health),
        web.get("/ready", readiness.ready),
        web.get("/startup", readiness.startup),
        web.get("/metrics", metrics),
    ]
