"""The mutating admission webhook: AdmissionReviews over TLS; certificates can be renewed while it runs.

It listens on two ports: reviews over TLS for the API server; `/health` for probes and `/metrics` in plain HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sidecar.errors import BodyError, ConfigError, SidecarError
from sidecar.kubernetes.admission_review import answer, facts, read
from sidecar.kubernetes.objects import Request
from sidecar.runtime.reload import Reloader
from sidecar.server.health import health
from sidecar.server.middleware import error_boundary
from sidecar.util import logs

BODY_BYTES = 4 * 1024 * 1024
"""Objects in a cluster are at most 1.5 MiB; an update's review contains two."""
BODY_SECONDS = 10.0
REGISTRY = CollectorRegistry()
REVIEWS = Counter("sidecar_webhook_reviews", "Answered AdmissionReviews.", ["outcome"], registry=REGISTRY)
CERTIFICATE_REJECTED = Gauge(
    "sidecar_webhook_certificate_rejected",
    "1 while the certificate's files hold one that cannot be used, and the former one is served.",
    registry=REGISTRY,
)
_OUTCOMES = ("injected", "unchanged", "refused", "malformed")
for _outcome in _OUTCOMES:
    REVIEWS.labels(_outcome)
_log = logs.get("webhook")


@dataclass(frozen=True, slots=True)
class Place:
    """The webhook's addresses and its certificate."""

    certificate: Path
    key: Path
    host: str = "0.0.0.0"  # noqa: S104 - the API server comes over the network
    port: int = 8443
    health_port: int = 8081


class Webhook:
    """A running webhook. Use as an async context manager."""

    def __init__(self, place: Place, terms: Request, *, own_namespace: str | None = None) -> None:
        self.port = self.health_port = 0
        self._place, self._terms, self._namespace = place, terms, own_namespace
        self._certified = self._tls = _context()
        self._tls.sni_callback = self._choose
        self._reloader = Reloader(lambda: [place.certificate, place.key], self._renew)
        self._stack = AsyncExitStack()
        CERTIFICATE_REJECTED.set_function(lambda: float(self._reloader.state.rejected is not None))

    async def __aenter__(self) -> Webhook:
        """Start listening. Raises `SidecarError`; nothing is left open then."""
        await self._renew()
        async with AsyncExitStack() as stack:
            await self._reloader.start()
            stack.push_async_callback(self._reloader.close)
            place = self._place
            self.port = await _listen(stack, self._reviews(), place.host, place.port, self._tls)
            self.health_port = await _listen(stack, _probes(), place.host, place.health_port, None)
            self._stack = stack.pop_all()
        _log.info("webhook_started", port=self.port, health_port=self.health_port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Answer the received requests, then close."""
        await self._stack.aclose()

    async def _renew(self) -> None:
        """Load the certificate for new connections. One that does not fit its key is rejected; the old one stays."""
        self._certified = await asyncio.to_thread(_load, self._place)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Give a handshake the newest certificate: a context in use must not be changed in the middle of one."""
        connection.context = self._certified

    def _reviews(self) -> web.Application:
        app = web.Application(middlewares=[error_boundary()], client_max_size=BODY_BYTES)
        app.router.add_post("/mutate", self._mutate)
        return app

    async def _mutate(self, message: web.Request) -> web.Response:
        async with asyncio.timeout(BODY_SECONDS):
            raw = await message.read()
        with _counted_if_malformed():
            request = read(raw)
        review = answer(request, self._terms, own_namespace=self._namespace)
        response = review["response"]
        outcome = "injected" if "patch" in response else "unchanged" if response["allowed"] else "refused"
        REVIEWS.labels(outcome).inc()
        write = _log.info if response["allowed"] else _log.warning
        write("review_answered", outcome=outcome, **facts(request, response))
        return web.json_response(review)


@contextmanager
def _counted_if_malformed() -> Iterator[None]:
    try:
        yield
    except BodyError:
        REVIEWS.labels("malformed").inc()
        raise


def _probes() -> web.Application:
    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", _metrics)
    return app


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(place: Place) -> ssl.SSLContext:
    context = _context()
    try:
        context.load_cert_chain(place.certificate, place.key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError("the certificate cannot be used", [f"{place.certificate}: {reason}"]) from None
    return context


async def _listen(stack: AsyncExitStack, app: web.Application, host: str, port: int, tls: ssl.SSLContext | None) -> int:
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=15, shutdown_timeout=10)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        raise SidecarError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return int(runner.addresses[0][1])
