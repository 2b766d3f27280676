"""Registry of the compatibility adapters, and the handler around each: key, scan, and errors in its own format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from sidecar.api.compat import (
    agentgateway,
    fms_detectors,
    lakera,
    litellm,
    llm_guard,
    moderations,
    nemo,
    nemo_jailbreak,
    plano,
    portkey,
)
from sidecar.api.endpoint import Redact, ScanEndpoint
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.observability.metrics import REFUSED
from sidecar.scan.engine import Engine
from sidecar.server.headers import sidecar_key
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import DECISION, DECISION_ID, ERROR_FORM
from sidecar.util import json

ENTRYPOINT = "compat"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One product's contract. `applies_mode`: the product obeys the verdict, so `mode: monitor` applies.

    `respond` gives the JSON of the response, or the response if its status says something, and its headers.
    """

    switch: str
    paths: tuple[str, ...]
    parse: Callable[[JsonValue, Settings], Any]
    respond: Callable[[ScanEndpoint, web.Request, Any], Awaitable[tuple[object, dict[str, str]]]]
    error: Callable[[RequestError], web.Response]
    applies_mode: bool = False
    redact: Redact | None = None
    """For contracts whose response can hold changed texts."""


_MODERATIONS = (moderations.PATH,)
_AGENTGATEWAY = (agentgateway.REQUEST, agentgateway.RESPONSE)
ADAPTERS = (
    Adapter("moderations", _MODERATIONS, moderations.parse, moderations.respond, moderations.error),
    Adapter("llm_guard", (llm_guard.SCAN,), llm_guard.parse, llm_guard.respond, llm_guard.error),
    Adapter(
        "llm_guard", (llm_guard.ANALYZE,), llm_guard.parse, llm_guard.respond, llm_guard.error, redact=llm_guard.redact
    ),
    Adapter("lakera", (lakera.PATH,), lakera.parse, lakera.respond, lakera.error),
    Adapter("litellm", (litellm.PATH,), litellm.parse, litellm.respond, litellm.error, True, litellm.redact),
    Adapter(
        "agentgateway",
        _AGENTGATEWAY,
        agentgateway.parse,
        agentgateway.respond,
        agentgateway.error,
        applies_mode=True,
        redact=agentgateway.redact,
    ),
    Adapter("nemo", (nemo.CHECKS, nemo.PLATFORM_CHECKS), nemo.parse, nemo.respond, nemo.error),
    Adapter("nemo", (nemo_jailbreak.CLASSIFY,), nemo_jailbreak.parse, nemo_jailbreak.respond, nemo_jailbreak.error),
    Adapter(
        "fms_detectors",
        (fms_detectors.CONTENTS,),
        fms_detectors.parse_contents,
        fms_detectors.respond_to_contents,
        fms_detectors.error,
    ),
    *(
        Adapter("fms_detectors", (path,), parse, fms_detectors.respond, fms_detectors.error)
        for path, parse in fms_detectors.PARSERS.items()
    ),
    Adapter("portkey", (portkey.PATH,), portkey.parse, portkey.respond, portkey.error, True, portkey.redact),
    *(
        Adapter(
            "plano",
            (plano.PREFIX + operation,),
            partial(plano.parse, operation),
            plano.respond,
            partial(plano.error, operation),
            True,
            partial(plano.redact, operation),
        )
        for operation in plano.OPERATIONS
    ),
)


def switched_on(settings: Settings) -> frozenset[str]:
    """The names of the settings in `compat` that are true."""
    return frozenset(name for name, enabled in settings.compat.model_dump().items() if enabled)


def routes(
    engine: Engine,
    decision_log: DecisionLog,
    gatekeeper: Gatekeeper,
    settings: Settings,
    pii_rules: RulesLayer | None = None,
) -> list[web.RouteDef]:
    """The routes of the enabled adapters, for the data port. `pii_rules`: the rules that scan responses."""
    switches, routes_on = switched_on(settings), []
    for adapter in ADAPTERS:
        if adapter.switch in switches:
            endpoint = ScanEndpoint(
                engine,
                decision_log,
                gatekeeper,
                settings,
                entrypoint=ENTRYPOINT,
                applies_mode=adapter.applies_mode,
                pii_rules=pii_rules,
            )
            routes_on += [web.post(path, _handler(adapter, endpoint)) for path in adapter.paths]
    return routes_on


def _handler(adapter: Adapter, endpoint: ScanEndpoint) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        request[ERROR_FORM] = adapter.error  # of what is no `RequestError` as well: some gateways pass on any status
        try:
            key = sidecar_key(request.headers)
            parse = lambda value: adapter.parse(value, endpoint.settings)  # noqa: E731
            api_request = await endpoint.read(request, key, parse, adapter.redact)
            body, headers = await adapter.respond(endpoint, request, api_request)
        except RequestError as request_error:
            REFUSED.labels(ENTRYPOINT, str(request_error.status)).inc()
            response = adapter.error(request_error)
            response.headers.setdefault(DECISION, request[DECISION_ID])
            return response
        if isinstance(body, web.Response):
            body.headers.update(headers)
            return body
        return web.Response(body=json.dumps(body, json.LARGE), content_type="application/json", headers=headers)

    return handle
