"""Tests of tracing with a real exporter and a collector that decodes what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from inline_proxy import ATTACK, CHAT, EVIL, run_proxy
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from recording import recording

from sidecar.config import Telemetry
from sidecar.observability import tracing
from sidecar.server.middleware import error_boundary

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Collector:
    """The spans received."""

    url: str = ""
    raw: bytes = b""
    spans: list[Span] = field(default_factory=list)
    service: str = ""

    async def receive(self, request: web.Request) -> web.Response:
        """`POST /v1/traces` in protobuf."""
        body = await request.read()
        self.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )

    def only_span(self, name: str) -> Span:
        """The only span of that name."""
        matches = [span for span in self.spans if span.name == name]
        assert len(matches) == 1
        return matches[0]


def attributes_of(span: Span) -> dict[str, object]:
    """The attributes of a span."""
    kinds = ((a.key, a.value, a.value.WhichOneof("value")) for a in span.attributes)
    return {key: getattr(value, kind) for key, value, kind in kinds}


@asynccontextmanager
async def collecting(**settings: float | str) -> AsyncIterator[Collector]:
    """Trace to a collector; all spans have arrived when the context exits."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.receive)
    async with TestServer(app) as server:
        collector.url = str(server.make_url("/"))
        stop = await tracing.start(Telemetry(endpoint=collector.url, **settings))  # type: ignore[arg-type]
        try:
            yield collector
        finally:
            await stop()


@pytest.fixture(autouse=True)
def no_tracer_is_left() -> Iterator[None]:
    """Each test stops its own tracing."""
    yield
    assert tracing._state.tracer is None


async def test_request_scan_and_layers_form_one_trace() -> None:
    """Server span in the caller's trace, scan below it, layers below that, in order, with the verdict's figures."""
    async with collecting(service="guard") as collector, run_proxy() as inline:
        got = await inline.ask(EVIL, traceparent=CALLER)
    server, scan, layer = (collector.only_span(name) for name in ("POST", "prompt scan", "layer rules"))
    assert {span.trace_id.hex() for span in collector.spans} == {CALLER.split("-")[1]}
    assert server.parent_span_id.hex() == CALLER.split("-")[2]
    assert (scan.parent_span_id, layer.parent_span_id) == (server.span_id, scan.span_id)
    times = [scan.start_time_unix_nano, layer.start_time_unix_nano, layer.end_time_unix_nano, scan.end_time_unix_nano]
    assert times == sorted(times)
    attributes = attributes_of(scan)
    assert attributes["sidecar.decision"] == got.headers["x-sidecar-decision"]
    assert (attributes["gen_ai.evaluation.score.value"], attributes["gen_ai.evaluation.score.label"]) == (0.9, "block")
    assert attributes["gen_ai.request.model"] == "m"
    assert attributes_of(server)["http.response.status_code"] == 400
    assert attributes_of(layer)["gen_ai.evaluation.score.value"] == 0.9
    assert collector.service == "guard"


async def test_a_scan_can_have_the_names_of_a_guardrail() -> None:
    """The span and its finding, under the span of the request; the evaluation's names are gone."""
    async with collecting(semconv="guardrail") as collector, run_proxy() as inline:
        await inline.ask(EVIL)
        await inline.ask(CHAT)
    blocked, allowed = (span for span in collector.spans if span.name == "apply_guardrail prompt-sidecar")
    assert attributes_of(blocked)["gen_ai.security.decision.type"] == "deny"
    assert attributes_of(allowed)["gen_ai.security.decision.type"] == "allow"
    assert not any(name.startswith("gen_ai.evaluation") for name in attributes_of(blocked))
    (event,) = blocked.events
    assert event.name == "gen_ai.security.finding"
    assert {each.key for each in event.attributes} > {"gen_ai.security.risk.category", "gen_ai.security.policy.id"}
    assert not allowed.events


@pytest.mark.parametrize("semconv", ["evaluation", "guardrail"])
async def test_no_text_of_a_prompt_reaches_the_collector(semconv: str) -> None:
    """Neither from a prompt, nor from a model name, path or query that holds one."""
    async with collecting(semconv=semconv) as collector, run_proxy() as inline:
        await inline.ask(EVIL | {"model": ATTACK})
        await inline.ask(CHAT, path="/v1/chat/completions?prompt=EVIL")
    assert collector.spans
    assert b"EVIL" not in collector.raw


async def test_the_upstream_is_called_in_our_trace() -> None:
    """The forwarded context names our span, in the caller's trace."""
    async with recording() as upstream, collecting() as collector, run_proxy(upstream.url) as inline:
        await inline.ask(CHAT, traceparent=CALLER, tracestate="a=b")
    version, trace, parent, _ = (upstream.requests[0].header("traceparent") or "").split("-")
    assert (version, trace) == ("00", CALLER.split("-")[1])
    assert parent == collector.only_span("POST").span_id.hex()
    assert upstream.requests[0].header("tracestate") == "a=b"


async def test_without_an_endpoint_the_context_passes_unchanged() -> None:
    """The caller's context reaches the upstream, and nothing is traced."""
    stop = await tracing.start(Telemetry())
    async with recording() as upstream, run_proxy(upstream.url) as inline:
        await inline.ask(CHAT, traceparent=CALLER)
    await stop()
    assert upstream.requests[0].header("traceparent") == CALLER


async def test_the_admin_port_is_not_traced() -> None:
    """The path of a one-time link is a secret and must not reach a collector."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[error_boundary(traced=False)])
    app.router.add_get("/invitation/{token}", page)
    async with collecting() as collector, TestClient(TestServer(app)) as client:
        assert (await client.get("/invitation/secret")).status == 200
    assert collector.spans == []


async def test_sampling_applies_to_traces_that_start_here() -> None:
    """With a sample rate of 0 only requests that the caller traces are exported."""
    async with collecting(sample=0.0) as collector, run_proxy() as inline:
        await inline.ask(CHAT)
        await inline.ask(CHAT, traceparent=CALLER)
    assert {span.trace_id.hex() for span in collector.spans} == {CALLER.split("-")[1]}


async def test_an_invalid_endpoint_is_a_configuration_error() -> None:
    """Reported before anything starts."""
    with pytest.raises(ValueError, match="4318"):
        Telemetry(endpoint="localhost:4318")
