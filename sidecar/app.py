"""The composition root: configuration in, a running application out. The list of layers is here, by hand."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from sidecar import limits, logs, policy, proof, upstream
from sidecar.apikeys import KeyRing
from sidecar.config import Settings
from sidecar.engine import ALWAYS, Engine, Stage, Terms
from sidecar.errors import PolicyError
from sidecar.journal import Journal
from sidecar.layers.llm_judge import LlmJudgeLayer
from sidecar.layers.rules import RulesLayer
from sidecar.layers.semantic import SemanticLayer
from sidecar.policy import Policy, Rule
from sidecar.store import Store
from sidecar.types import Action, LayerName
from sidecar.web.api import ScanApi
from sidecar.web.health import Readiness, admin_routes, data_routes
from sidecar.web.middleware import Gatekeeper, boundary, is_own, not_here
from sidecar.web.proxy import Proxy
from sidecar.web.server import Site

_log = logs.get("app")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What every door stands on: the engine and the policy that it was built from."""

    engine: Engine
    policy: Policy


@asynccontextmanager
async def pipeline(settings: Settings, *, prove: bool = True) -> AsyncIterator[Pipeline]:
    """Load policies and layers, prove every rule of the local layers, and close the layers at the end.

    The judge's questions are not proved here: a start must not wait for, or pay, somebody else's model.

    Raises `PolicyError`, `ModelError` or `ConfigError`; nothing is left open then.
    """
    rules = policy.load(settings.policies)
    async with AsyncExitStack() as stack:
        stages = await _stages(settings, rules, stack)
        local = [stage.layer for stage in stages if stage.layer.name is not LayerName.LLM_JUDGE]
        if prove and (problems := await proof.prove(rules, local)):
            raise PolicyError("policies fail their own examples", problems)
        gate = limits.Concurrency(settings.scan.concurrency, settings.scan.queue)
        yield Pipeline(Engine(stages, _terms(settings, rules), gate), rules)


async def _stages(settings: Settings, rules: Policy, stack: AsyncExitStack) -> Sequence[Stage]:
    """The layers in their order. A layer is asked until the score is certain; the judge only in its band."""
    chosen, failure = settings.layers, settings.failure
    judged = chosen.llm_judge.url is not None and chosen.llm_judge.mode == "decide"
    settled = max(settings.scan.threshold, chosen.llm_judge.between[1]) if judged else settings.scan.threshold
    stages = []
    if chosen.rules.enabled:
        stages.append(Stage(RulesLayer(rules), failure.rules, ALWAYS))
    if chosen.semantic.enabled:
        semantic = await asyncio.to_thread(SemanticLayer.load, chosen.semantic, _rules_of(rules, "similar_to"))
        stack.push_async_callback(semantic.close)
        stages.append(Stage(semantic, failure.semantic, (0.0, settled)))
    if chosen.llm_judge.url is not None:
        judge = LlmJudgeLayer(chosen.llm_judge, _rules_of(rules, "question"), threshold=settings.scan.threshold)
        stack.push_async_callback(judge.close)
        stages.append(Stage(judge, failure.llm_judge, chosen.llm_judge.between, replaces=True, decides=judged))
    return stages


def _rules_of(rules: Policy, kind: str) -> list[Rule]:
    return [rule for rule in rules.rules if getattr(rule, kind) and rule.status != "retired"]


def _terms(settings: Settings, rules: Policy) -> Terms:
    return Terms(
        threshold=settings.scan.threshold,
        deadline=settings.scan.deadline,
        all_failed=Action(settings.failure.all),
        overload=Action(settings.failure.overload),
        too_long=Action(settings.failure.input.oversize),
        revision=rules.revision,
    )


class Sidecar:
    """A running sidecar: two listening sites over one pipeline. Use as an async context manager."""

    def __init__(self, settings: Settings, *, share_ports: bool = False) -> None:
        self.settings = settings
        self._share_ports = share_ports
        self.keyring: KeyRing
        self.store: Store
        self.policy: Policy
        self.data_port = 0
        self.admin_port = 0
        self._stack = AsyncExitStack()
        self._draining = False

    async def __aenter__(self) -> Sidecar:
        """Open everything and listen; on any error close what was opened."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, let requests in flight end within `drain.timeout`, close everything."""
        self._draining = True
        await self._stack.aclose()

    async def _start(self) -> None:
        settings, stack = self.settings, self._stack
        self.store = await Store.open(settings.store.url)
        stack.push_async_callback(self.store.close)
        built = await stack.enter_async_context(pipeline(settings))
        self.policy = built.policy
        self.keyring = KeyRing(self.store, settings.auth)
        await self.keyring.start()
        stack.push_async_callback(self.keyring.close)
        await self.keyring.start()
        stack.push_async_callback(self.keyring.close)
        limiter = await limits.open(settings.limits.url)
        stack.push_async_callback(limiter.close)
        journal = Journal(self.store, settings.store, settings.log)
        await journal.start()
        stack.push_async_callback(journal.close)
        forward = await upstream.open(settings.upstream)
        stack.push_async_callback(forward.close)
        gatekeeper = Gatekeeper(self.keyring, limiter, settings)
        await self._listen(self._data_app(built.engine, journal, gatekeeper, forward), self._admin_app(journal))

    def _data_app(
        self, engine: Engine, journal: Journal, gatekeeper: Gatekeeper, forward: upstream.Upstream
    ) -> web.Application:
        app = web.Application(middlewares=[boundary()])
        own = [*ScanApi(engine, journal, gatekeeper, self.settings).routes(), *data_routes()]
        app.add_routes(own)
        proxy = Proxy(engine, journal, forward, self.settings, gatekeeper)

        async def rest(request: web.Request) -> web.StreamResponse:
            if is_own(request.path):
                raise not_here(request, (route.path for route in own))
            return await proxy.handle(request)

        app.router.add_route("*", "/{tail:.*}", rest)
        return app

    def _admin_app(self, journal: Journal) -> web.Application:
        app = web.Application(middlewares=[boundary()])
        app.add_routes(admin_routes(Readiness(lambda: self._problems(journal), lambda: self.policy.revision)))
        return app

    def _problems(self, journal: Journal) -> list[str]:
        problems = ["draining"] if self._draining else []
        return problems if journal.healthy else [*problems, "scan log cannot be written"]

    async def _listen(self, data: web.Application, admin: web.Application) -> None:
        settings, drain = self.settings, self.settings.drain.timeout
        data_site = Site(data, settings.limits, drain)
        self._stack.push_async_callback(data_site.close)
        self.data_port = await data_site.listen(settings.listen.host, settings.listen.port, share=self._share_ports)
        admin_site = Site(admin, settings.limits, drain)
        self._stack.push_async_callback(admin_site.close)
        self.admin_port = await admin_site.listen(settings.admin.host, settings.admin.port, share=self._share_ports)
        _log.info("listen_started", host=settings.listen.host, port=self.data_port, admin_port=self.admin_port)


async def until_signal() -> None:
    """Wait for SIGTERM or SIGINT; a second signal ends the process at once."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await stop.wait()
    _log.info("drain_started")
