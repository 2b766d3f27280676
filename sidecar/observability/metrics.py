"""The counters, gauges and histograms that Prometheus scrapes from the admin port.

They have a registry of their own, so that tests can read it and libraries add nothing. Label values are always from a
closed set: no client can create a time series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, disable_created_metrics

from sidecar import __version__
from sidecar.config.outbound import ALERT_NAMES
from sidecar.policy.reductions import REASONS
from sidecar.taxonomy import BY_LABEL
from sidecar.types import Label

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time of creation for every series tells nobody anything
REGISTRY = CollectorRegistry()
MAX_CACHED_SERIES = 2_000
"""Label lookups that are cached: a lookup costs as much as counting."""
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
    return Counter(name, text, labels, registry=REGISTRY)


OVER_WORKERS: dict[str, Callable[[Iterable[float]], float]] = {}
"""How the values of each gauge over several workers become one; counters and histograms are sums."""


def _gauge(
    name: str, text: str, labels: tuple[str, ...] = (), over_workers: Callable[[Iterable[float]], float] = sum
) -> Gauge:
    OVER_WORKERS[name] = over_workers
    return Gauge(name, text, labels, registry=REGISTRY)


DECISIONS = _counter("sidecar_decisions_total", "Scans by entry point and action taken.", ("door", "action"))
THREATS = _counter("sidecar_threats_total", "Threat labels found.", ("label",))
THREAT_INFO = _gauge(
    "sidecar_threat_info", "1; the identifiers of OWASP and ATLAS.", ("label", "taxonomy"), over_workers=max
)
for _label, _ids in BY_LABEL.items():
    THREAT_INFO.labels(_label, " ".join(_ids)).set(1)
UNSCANNED = _counter("sidecar_unscanned_forward_total", "Requests forwarded unscanned, by cause.", ("cause",))
ANSWERS = _counter("sidecar_answers_total", "Responses scanned, by outcome.", ("outcome",))
ACTIONS = _counter("sidecar_actions_total", "Findings on actions in responses, by outcome.", ("outcome",))
PDFS = _counter("sidecar_pdfs_total", "PDFs in requests, by how far they were read.", ("outcome",))
PICTURES = _counter("sidecar_pictures_total", "Pictures in requests, by how far their text was read.", ("outcome",))
REDACTED = _counter("sidecar_redacted_total", "Values replaced in prompts before forwarding.")
MARKED = _counter(
    "sidecar_untrusted_texts_total", "Third parties' texts in forwarded requests, by outcome.", ("outcome",)
)
LAYER_FAILURES = _counter("sidecar_layer_failures_total", "Layers that failed, by cause.", ("layer", "cause"))
REFUSED = _counter("sidecar_refused_total", "Requests answered with an error, by status.", ("door", "status"))
NO_ROOM = _counter("sidecar_no_room_total", "Bodies and connections rejected by the bounds.", ("what",))
LOG_DROPPED = _counter(
    "sidecar_log_dropped_total", "Decisions dropped: the queue of the scan log was full, or its database down."
)
LOG_WRITTEN = _counter("sidecar_log_written_total", "Decisions written to the scan log.")
LOG_TRIMMED = _counter("sidecar_log_trimmed_total", "Decisions deleted early: beyond log.rows or log.bytes.")
LIMITS_LOCAL = _counter("sidecar_limits_local_total", "Requests limited in this process because Redis was down.")
RELOADS = _counter("sidecar_reloads_total", "Reloads of settings and policies, by outcome.", ("outcome",))
CHANGES_NOT_APPLIED = _gauge(
    "sidecar_changes_not_applied",
    "1 while the last reload is rejected; settings that wait for a restart.",
    ("reason",),
    over_workers=max,
)
for _name in ("rejected", "restart"):
    CHANGES_NOT_APPLIED.labels(_name).set(0)
JUDGE_CALLS = _counter("sidecar_judge_calls_total", "Scans that asked the judge, by outcome.", ("outcome",))
JUDGE_REQUESTS = _counter("sidecar_judge_requests_total", "HTTP requests to the judge, controls and retries included.")
JUDGE_TOKENS = _counter("sidecar_judge_tokens_total", "Tokens used, as reported by the judge or estimated.")
SHADOW = _counter("sidecar_shadow_total", "Decisions compared with a shadow policy set, by outcome.", ("outcome",))
ALERTS = _counter("sidecar_alerts_total", "Alerts for the webhook, by outcome.", ("alert", "outcome"))
SINK_EVENTS = _counter("sidecar_sink_events_total", "Decisions for further receivers, by outcome.", ("sink", "outcome"))
MCP_DRIFT = _counter("sidecar_mcp_drift_total", "Tools of MCP servers that are not as they were pinned.", ("kind",))
CACHE = _counter("sidecar_cache_total", "Lookups of cached scan results.", ("cache", "outcome"))

SCAN_SECONDS = Histogram("sidecar_scan_seconds", "Time of one scan.", ("door",), buckets=_BUCKETS, registry=REGISTRY)
LAYER_SECONDS = Histogram(
    "sidecar_layer_seconds", "Time of one layer in one scan.", ("layer",), buckets=_BUCKETS, registry=REGISTRY
)
IN_FLIGHT = _gauge("sidecar_scans_in_flight", "Scans running or waiting.")
BODY_BYTES = _gauge("sidecar_body_bytes", "Memory reserved for the bodies of requests in flight.")
CONNECTIONS = _gauge("sidecar_connections", "Connections of clients, on all ports.")
LOG_QUEUE = _gauge("sidecar_log_queue", "Decisions waiting to be written.")
GENERATION = _gauge(
    "sidecar_generation", "How often the configuration was replaced while running, plus one.", over_workers=max
)
POLICY = _gauge("sidecar_policy_info", "The policies in force, by revision.", ("revision",), over_workers=max)
PROTECTION_REDUCED = _gauge(
    "sidecar_protection_reduced",
    "Settings and keys that let more pass than the defaults, by reason.",
    ("reason",),
    over_workers=max,
)
for _name in REASONS:
    PROTECTION_REDUCED.labels(_name).set(0)
JUDGE_BUDGET = _gauge(
    "sidecar_judge_budget_left_ratio", "Share of the judge budget that is left.", ("budget",), over_workers=min
)
BUILD = _gauge("sidecar_build_info", "The running version.", ("version",), over_workers=max)
BUILD.labels(__version__).set(1)
DEPENDENCIES = ("store", "redis", "judge", "upstream")


class _DependencyUp(Gauge):
    """Series of the dependencies in use alone, as Prometheus has no `up` of what it does not scrape."""

    def in_use(self, name: str) -> bool:  # noqa: ARG002 - the signature of those that replace it
        """Whether the process uses a dependency of this name. None is known before its health is."""
        return False

    def collect(self) -> Iterable[Metric]:
        """As of now."""
        for family in super().collect():
            family.samples = [sample for sample in family.samples if self.in_use(sample.labels["dependency"])]
            yield family


OVER_WORKERS["sidecar_dependency_up"] = min
DEPENDENCY_UP = _DependencyUp(
    "sidecar_dependency_up", "1, 0 while it cannot be used.", ("dependency",), registry=REGISTRY
)
READY = _gauge("sidecar_ready", "1 when ready to serve, else 0.", over_workers=min)
WORKERS_MISSING = "sidecar_workers_missing"
_gauge(WORKERS_MISSING, "Worker processes that do not run or do not react; 0 with a single process.")

_ENTRY_POINTS = ("inline", "api", "compat", "answer", "mcp")
_JUDGE_CAUSES = (
    *("deadline", "unavailable", "garbage", "refusal", "swayed", "partial"),
    *("budget", "queue_full", "breaker_open"),
)
_CAUSES = {
    "rules": ("deadline", "error", "budget"),
    "semantic": ("deadline", "error", "budget", "overload", "unavailable", "missing"),
    "llm_judge": ("error", *_JUDGE_CAUSES),
}
_UNSCANNED = (
    *("deadline", "overload", "budget", "error", "unavailable", "no_layer"),
    *("media", "token_ids", "reference", "oversize", "malformed", "encoding", "unknown_route", "files", "answer"),
)
_STATUSES = ("400", "401", "403", "404", "408", "413", "415", "422", "426", "429", "500", "502", "503", "504")
_SERIES: tuple[tuple[Counter | Histogram, tuple[Iterable[str], ...]], ...] = (
    (DECISIONS, (_ENTRY_POINTS, ("allow", "block", "monitor", "refuse"))),
    (DECISIONS, (("answer",), ("flag", "unscanned"))),
    (SCAN_SECONDS, (_ENTRY_POINTS,)),
    (REFUSED, (("inline", "compat", "mcp", "own"), _STATUSES)),
    (UNSCANNED, (_UNSCANNED,)),
    *((LAYER_FAILURES, ((layer,), causes)) for layer, causes in _CAUSES.items()),
    (LAYER_SECONDS, (_CAUSES,)),
    (THREATS, (Label,)),
    (ANSWERS, (("allow", "flag", "block", "unscanned"),)),
    (ACTIONS, (("flag", "block", "ask"),)),
    *((files, (("read", "partial", "failed", "timeout", "overload"),)) for files in (PDFS, PICTURES)),
    (MARKED, (("marked", "unmarked"),)),
    (NO_ROOM, (("body", "connection"),)),
    (RELOADS, (("done", "rejected"),)),
    (JUDGE_CALLS, (("answered", "cached", *_JUDGE_CAUSES),)),
    (SHADOW, (("agreed", "disagreed", "failed", "dropped"),)),
    (MCP_DRIFT, (("added", "changed", "removed", "shadowed"),)),
    (CACHE, (("rules", "semantic", "judge"), ("hit", "miss"))),
    (ALERTS, (ALERT_NAMES, ("sent", "failed", "dropped"))),
    (SINK_EVENTS, (("splunk", "syslog"), ("sent", "rejected", "dropped"))),
    (CACHE, (("redis",), ("failed", "forged"))),
)
"""The label values of each family. They exist from the start: a series that begins with its first event has no rate."""
for _family, _values in _SERIES:
    for _labels in product(*_values):
        _family.labels(*_labels)


@lru_cache(maxsize=MAX_CACHED_SERIES)
def cached_counter(counter: Counter, *labels: str) -> Counter:
    """The counter with these labels."""
    return counter.labels(*labels)


@lru_cache(maxsize=MAX_CACHED_SERIES)
def cached_histogram(histogram: Histogram, *labels: str) -> Histogram:
    """The histogram with these labels."""
    return histogram.labels(*labels)
