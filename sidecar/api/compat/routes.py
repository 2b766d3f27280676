"""The adapters that are switched on, by hand, and what stands around each: the scan, and errors in its own shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from sidecar.api.compat import agentgateway, lakera, litellm, llm_guard, moderations
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.observability.metrics import REFUSED
from sidecar.scan.engine import Engine
from sidecar.server.headers import sidecar_key
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import DECISION, DECISION_ID
from sidecar.util import json

ENTRYPOINT = "compat"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One product's contract. `obeyed`: it does as it is told, so that `mode: monitor` is honoured."""

    switch: str
    paths: tuple[str, ...]
    parse: Callable[[JsonValue, Settings], Any]
    answer: Callable[[ScanEndpoint, web.Request, Any], Awaitable[tuple[object, dict[str, str]]]]
    error: Callable[[RequestError], web.Response]
    obeyed: bool = False


_MODERATIONS = (moderations.PATH,)
_LLM_GUARD = (llm_guard.ANALYZE, llm_guard.SCAN)
_AGENTGATEWAY = (agentgateway.REQUEST, agentgateway.RESPONSE)
ADAPTERS = (
    Adapter("moderations", _MODERATIONS, moderations.parse, moderations.answer, moderations.error),
    Adapter("llm_guard", _LLM_GUARD, llm_guard.parse, llm_guard.answer, llm_guard.error),
    Adapter("lakera", (lakera.PATH,), lakera.parse, lakera.answer, lakera.error),
    Adapter("litellm", (litellm.PATH,), litellm.parse, litellm.answer, litellm.error, obeyed=True),
    Adapter("agentgateway", _AGENTGATEWAY, agentgateway.parse, agentgateway.answer, agentgateway.error, obeyed=True),
)


def switched_on(settings: Settings) -> frozenset[str]:
    """The names of the settings in `compat` that are true."""
    return frozenset(name for name, on in settings.compat.model_dump().items() if on)


def routes(
    engine: Engine,
    decision_log: DecisionLog,
    gatekeeper: Gatekeeper,
    settings: Settings,
    personal: RulesLayer | None = None,
) -> list[web.RouteDef]:
    """The routes of what is switched on, for the data port. `personal`: the rules by which answers are looked at."""
    on, found = switched_on(settings), []
    for adapter in ADAPTERS:
        if adapter.switch in on:
            endpoint = ScanEndpoint(
                engine,
                decision_log,
                gatekeeper,
                settings,
                entrypoint=ENTRYPOINT,
                obeyed=adapter.obeyed,
                personal=personal,
            )
            found += [web.post(path, _handler(adapter, endpoint)) for path in adapter.paths]
    return found


def _handler(adapter: Adapter, endpoint: ScanEndpoint) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        try:
            key = sidecar_key(request.headers)
            asked = await endpoint.read(request, key, lambda value: adapter.parse(value, endpoint.settings))
            body, headers = await adapter.answer(endpoint, request, asked)
        except RequestError as failed:
            REFUSED.labels(ENTRYPOINT, str(failed.status)).inc()
            refused = adapter.error(failed)
            refused.headers.setdefault(DECISION, request[DECISION_ID])
            return refused
        return web.Response(body=json.dumps(body), content_type="application/json", headers=headers)

    return handle
