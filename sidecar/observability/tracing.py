"""Traces for OpenTelemetry: a span for each request, scan and layer, and W3C context to the upstream.

Off until `telemetry.endpoint` names a collector (OTLP over HTTP); needs the extra `[otel]`. A scan's spans are made
from its decision, once it is there, so that the scan itself knows nothing of them. Names and figures alone are
written, never a text of a prompt. Spans wait in a bounded queue and are dropped when the collector does not keep up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multidict import CIMultiDict

from sidecar import __version__
from sidecar.config import Telemetry as Settings
from sidecar.errors import ConfigError
from sidecar.types import Decision, LayerReport

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

EXPORT_TIMEOUT = 5.0
QUEUE = 2048
CONTEXT = ("traceparent", "tracestate")
LONGEST_NAME = 100
_SECOND = 1_000_000_000


@dataclass(slots=True)
class _State:
    """None: nothing is traced."""

    tracer: Tracer | None = None


_state = _State()


async def start(settings: Settings) -> Callable[[], Awaitable[None]]:
    """Begin to trace, if an endpoint is set; returns what ends it. Raises `ConfigError` without the extra."""
    if settings.endpoint is None:
        return _nothing
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise ConfigError("telemetry.endpoint", ["needs the extra: pip install 'prompt-sidecar[otel]'"]) from None
    provider = TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(settings.sample)),
        resource=Resource.create({"service.name": settings.service, "service.version": __version__}),
    )
    exporter = OTLPSpanExporter(endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE))
    _state.tracer = provider.get_tracer("sidecar", __version__)

    async def stop() -> None:
        _state.tracer = None
        await asyncio.to_thread(provider.shutdown)

    return stop


async def _nothing() -> None:
    return None


def traces() -> bool:
    """Whether anything is traced at all."""
    return _state.tracer is not None


@contextmanager
def request(method: str, path: str, headers: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
    """A span around one request, in the trace of the caller; yields what is told the status of the answer."""
    if _state.tracer is None:
        yield lambda _status: None
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier = {name: headers[name] for name in CONTEXT if name in headers}
    context = TraceContextTextMapPropagator().extract(carrier)
    facts = {"http.request.method": method, "url.path": path[:LONGEST_NAME]}
    with _state.tracer.start_as_current_span(
        method, context, SpanKind.SERVER, facts, record_exception=False, set_status_on_exception=False
    ) as span:
        yield lambda status: _answered(span, status)


def _answered(span: Span, status: int) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(StatusCode.ERROR)


def upward(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers of a forwarded request, in our trace. Without a tracer they are the client's own, untouched."""
    if _state.tracer is None:
        return headers
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    ours: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(ours)
    changed = headers.copy()
    for name in CONTEXT:
        changed.popall(name, None)
    changed.update(ours)
    return changed


def record(decision: Decision) -> None:
    """The spans of a scan that has just ended: itself, and its layers one behind the other."""
    if _state.tracer is None:
        return
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - an extra

    reports = decision.verdict.reports
    end = time.time_ns()
    begun = end - int(max(decision.verdict.latency_ms / 1000, sum(report.elapsed for report in reports)) * _SECOND)
    scan = _state.tracer.start_span("prompt scan", attributes=_facts(decision), start_time=begun)
    context, at = set_span_in_context(scan), begun
    for report in reports:
        layer = _state.tracer.start_span(f"layer {report.layer}", context, attributes=_of_layer(report), start_time=at)
        at += int(report.elapsed * _SECOND)
        layer.end(at)
    scan.end(end)


def _facts(decision: Decision) -> dict[str, Any]:
    verdict = decision.verdict
    facts = {
        "gen_ai.request.model": _name(decision.model),
        "gen_ai.evaluation.name": "prompt-sidecar",
        "gen_ai.evaluation.score.value": verdict.risk_score,
        "gen_ai.evaluation.score.label": decision.action,
        "sidecar.decision": decision.id,
        "sidecar.door": decision.door,
        "sidecar.threats": [str(label) for label in verdict.threats],
        "sidecar.layer_used": str(verdict.layer_used),
        "sidecar.policy_revision": verdict.revision,
        "sidecar.unscanned": decision.unscanned,
        "error.type": verdict.failure,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _of_layer(report: LayerReport) -> dict[str, Any]:
    facts = {
        "gen_ai.evaluation.name": str(report.layer),
        "gen_ai.evaluation.score.value": report.score,
        "sidecar.findings": len(report.findings),
        "error.type": report.failure,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _name(model: str | None) -> str | None:
    """The model, if it looks like one: in any other form a client could write a prompt into a trace."""
    known = model is not None and len(model) <= LONGEST_NAME and model.isascii() and model.isprintable()
    return model if known and " " not in str(model) else None
