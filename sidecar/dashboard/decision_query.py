"""The filter and order of the list of decisions: read from a query, and written as a link, in words or as a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sidecar.dashboard.forms import Checks, Form, refused
from sidecar.dashboard.periods import RANGES
from sidecar.storage import NOT_SCANNED, Filter, Sort
from sidecar.types import Label, LayerName

ACTIONS = ("allow", "block", "monitor")
ENTRY_POINTS = ("inline", "api", "compat", "mcp", "answer")
CHOICES = {
    "kind": ("scan", "other"),
    "recommended": ("allow", "block"),
    "outcome": ("failed", "unscanned"),
    "without": ("key", "model"),
    "door": ENTRY_POINTS,
    "review": ("marked", "excepted"),
}
SORTS: Mapping[Sort, str] = {
    "at": "newest first",
    "risk_score": "highest risk first",
    "latency_ms": "slowest first",
    "length": "longest first",
}
FIELDS = (
    *("q", "range", "since", "until", "team", "key", "client", "model", "label", "action", "layer", "ran", "rule"),
    *("rule_id", "risk", "failure", *CHOICES, "sort"),
)
FAILURES = (
    *("deadline", "error", "overload", "budget", "too_long", "skip", "encoding", "malformed", "oversize", "path"),
    *("media", "unmarked", "route_not_allowed", "not_found", "upgrade_refused", "scanner_unavailable"),
)
"""Causes that a form suggests; any other may be typed."""
TITLES = {
    "q": "search",
    "range": "within the last",
    "since": "from",
    "label": "threat",
    "layer": "decided by",
    "ran": "layer that ran",
    "rule": "rule begins with",
    "rule_id": "rule",
    "risk": "risk from",
    "failure": "cause",
    "kind": "requests",
    "door": "entry point",
    "review": "exceptions",
    "sort": "order",
}
"""What fields are called where the field's own name does not say it."""
MAX_FILE_NAME = 120


def read_filter(form: Form) -> Filter:
    """The filter in a form or query. Raises `RequestError` naming every field that is wrong."""
    checks, fields = Checks(), {"key": "key_id", "layer": "layer_used", "rule": "rule_begins", "rule_id": "rule"}
    choices = {"label": list(Label), "action": ACTIONS, "layer": [*LayerName, NOT_SCANNED], "ran": list(LayerName)}
    criteria: dict[str, Any] = {"words": checks.read(lambda: form.text("q")) or None}
    for name in ("key", "client", "rule", "rule_id", "model", "failure"):
        criteria[fields.get(name, name)] = checks.read(lambda name=name: form.text(name)) or None  # type: ignore[misc]
    for name, options in {**choices, **CHOICES}.items():
        value = checks.read(lambda name=name, options=options: form.choice(name, options))  # type: ignore[misc]
        criteria[fields.get(name, name)] = value
    criteria["risk"] = checks.read(lambda: form.number("risk", 0, 1))
    criteria |= dict(zip(("since", "until"), _times(form, checks), strict=True))
    checks.done()
    return Filter(**criteria)


def _times(form: Form, checks: Checks) -> tuple[datetime | None, datetime | None]:
    """The time in a form; a selectable range ends now."""
    name = checks.read(lambda: form.choice("range", [span.name for span in RANGES]))
    begins = next((datetime.now(UTC) - span.length for span in RANGES if span.name == name), None)
    since, until = checks.read(lambda: form.moment("since")), checks.read(lambda: form.moment("until"))
    checks.read(lambda: _check_order(since or begins, until))
    return since or begins, until


def _check_order(since: datetime | None, until: datetime | None) -> None:
    if since and until and until <= since:
        raise refused(400, "The end lies before the beginning: no decision can lie between them.", param="until")


def read_sort(form: Form) -> Sort:
    """The order that a query chooses."""
    name = form.choice("sort", SORTS)
    return next((sort for sort in SORTS if sort == name), "at")


def link_of(form: Form, **extra: str) -> str:
    """The chosen filter as a query string."""
    return urlencode({name: form.text(name) for name in FIELDS if form.text(name)} | extra)


def for_audit(form: Form) -> str:
    """The filter for the audit trail: of free text, which may contain anything, only that it was set."""
    hidden = {name: "*" for name in ("model", "client", "rule", "rule_id", "failure", "q") if form.text(name)}
    hidden |= {"key": "*"} if len(form.text("key")) > 8 else {}
    return link_of(Form({**form, **hidden}))


def filter_words(query: str, keys: Mapping[str, str]) -> str:
    """The query of a list in words. `keys`: the names of keys."""
    fields = dict(parse_qsl(query))
    return ", ".join(f"{_title(name)}: {_value(name, fields[name], keys)}" for name in fields) or "all decisions"


def _title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " "))


def _value(name: str, value: str, keys: Mapping[str, str]) -> str:
    if name == "range":
        return next((span.words for span in RANGES if span.name == value), value)
    if name == "sort":
        return {str(sort): words for sort, words in SORTS.items()}.get(value, value)
    if name in {"since", "until"}:
        return value.replace("T", " ")
    return keys.get(value, value) if name == "key" else value.replace("_", " ") if name in CHOICES else value


def file_name(form: Form, ending: str, now: datetime) -> str:
    """The name of an exported file: the day, then the filter with its range, in characters that every system takes."""
    parts = [f"{name}-{value}" for name, value in parse_qsl(link_of(form)) if name != "sort"]
    stem = "_".join(["decisions", f"{now:%Y-%m-%d}", *(re.sub(r"[^A-Za-z0-9.-]+", "-", part) for part in parts)])
    return f"{stem[:MAX_FILE_NAME]}.{ending}"
