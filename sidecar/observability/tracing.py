"""Traces for OpenTelemetry: a span per request, scan and layer, and W3C context to the upstream.

Off until `telemetry.endpoint` names a collector (OTLP over HTTP); needs the extra `[otel]`. The spans of a scan are
created from its decision afterwards, so the scan does not depend on tracing. Only names and figures are exported,
never text of a prompt. Spans wait in a bounded queue and are dropped when the collector does not keep up.

`telemetry.semconv` chooses the names: `evaluation` (`gen_ai.evaluation.*`, semantic conventions 1.37), or `guardrail`:
spans `apply_guardrail` with events `gen_ai.security.finding`, as proposed in semantic-conventions-genai #427 (open;
read in the prototype of December 2025).
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
from sidecar.errors import ConfigError, needs_extra
from sidecar.observability import guardrail
from sidecar.types import Decision, LayerReport

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

EXPORT_TIMEOUT = 5.0
MAX_QUEUE = 2048
CONTEXT_HEADERS = ("traceparent", "tracestate")
MAX_NAME = 100
_NANOSECONDS = 1_000_000_000


@dataclass(slots=True)
class _State:
    """Without a tracer nothing is traced."""

    tracer: Tracer | None = None
    is_guardrail: bool = False


_state = _State()


async def start(settings: Settings) -> Callable[[], Awaitable[None]]:
    """Start tracing if an endpoint is set; returns a function that stops it. Raises `ConfigError` without the extra."""
    if settings.endpoint is None:
        return _no_op
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise ConfigError("telemetry.endpoint", [needs_extra("otel")]) from None
    provider = TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(settings.sample)),
        resource=Resource.create({"service.name": settings.service, "service.version": __version__}),
    )
    exporter = OTLPSpanExporter(endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MAX_QUEUE))
    _state.tracer = provider.get_tracer("sidecar", __version__)
    _state.is_guardrail = settings.semconv == "guardrail"

    async def stop() -> None:
        _state.tracer = None
        await asyncio.to_thread(provider.shutdown)

    return stop


async def _no_op() -> None:
    return None


def is_enabled() -> bool:
    """Whether tracing is on."""
    return _state.tracer is not None


@contextmanager
def request(method: str, path: str, headers: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
    """A span around one request, in the caller's trace; yields a function that sets the response status."""
    if _state.tracer is None:
        yield lambda _status: None
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier = {name: headers[name] for name in CONTEXT_HEADERS if name in headers}
    context = TraceContextTextMapPropagator().extract(carrier)
    attributes = {"http.request.method": method, "url.path": path[:MAX_NAME]}
    with _state.tracer.start_as_current_span(
        method, context, SpanKind.SERVER, attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        yield lambda status: _set_status(span, status)


def _set_status(span: Span, status: int) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(StatusCode.ERROR)


def inject_context(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """Headers of a forwarded request, in our trace. Without a tracer the client's headers are unchanged."""
    if _state.tracer is None:
        return headers
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    context: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(context)
    merged = headers.copy()
    for name in CONTEXT_HEADERS:
        merged.popall(name, None)
    merged.update(context)
    return merged


def record(decision: Decision) -> None:
    """The spans of a finished scan: the scan itself, and its layers one after the other."""
    if _state.tracer is None:
        return
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - an extra

    reports = decision.verdict.reports
    end = time.time_ns()
    seconds = max(decision.verdict.latency_ms / 1000, sum(report.elapsed for report in reports))
    started = end - int(seconds * _NANOSECONDS)
    name, attributes = "prompt scan", _attributes(decision)
    if _state.is_guardrail:
        name, attributes = guardrail.SPAN, _common(decision) | guardrail.attributes(decision)
    scan = _state.tracer.start_span(name, attributes=attributes, start_time=started)
    for event in guardrail.events(decision) if _state.is_guardrail else ():
        scan.add_event(guardrail.EVENT, event, end)
    context, at = set_span_in_context(scan), started
    for report in reports:
        attributes = _layer_attributes(report)
        layer = _state.tracer.start_span(f"layer {report.layer}", context, attributes=attributes, start_time=at)
        at += int(report.elapsed * _NANOSECONDS)
        layer.end(at)
    scan.end(end)


def _attributes(decision: Decision) -> dict[str, Any]:
    return _common(decision) | {
        "gen_ai.evaluation.name": "prompt-sidecar",
        "gen_ai.evaluation.score.value": decision.verdict.risk_score,
        "gen_ai.evaluation.score.label": decision.action,
    }


def _common(decision: Decision) -> dict[str, Any]:
    verdict = decision.verdict
    attributes = {
        "gen_ai.request.model": _safe_model(decision.model),
        "sidecar.decision": decision.id,
        "sidecar.door": decision.entrypoint,
        "sidecar.threats": [str(label) for label in verdict.threats],
        "sidecar.layer_used": str(verdict.layer_used),
        "sidecar.policy_revision": verdict.revision,
        "sidecar.unscanned": decision.unscanned,
        "error.type": verdict.failure,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _layer_attributes(report: LayerReport) -> dict[str, Any]:
    attributes = {
        "gen_ai.evaluation.name": str(report.layer),
        "gen_ai.evaluation.score.value": report.score,
        "sidecar.findings": len(report.findings),
        "error.type": report.failure,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _safe_model(model: str | None) -> str | None:
    """The model, if it looks like a name: otherwise a client could put a prompt into a trace."""
    is_name = model is not None and len(model) <= MAX_NAME and model.isascii() and model.isprintable()
    return model if is_name and " " not in str(model) else None
