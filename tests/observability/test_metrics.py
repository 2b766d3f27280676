"""Twin of observability/metrics.py: names by convention, and that dashboard and alerts ask for what exists."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import neighbours
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from support import SidecarProcess

from sidecar import __version__
from sidecar.observability.metrics import REGISTRY

OBSERVABILITY = Path(__file__).parents[2] / "docs" / "observability"
FAMILIES: dict[str, Metric] = {family.name: family for family in REGISTRY.collect()}
LABELS = {
    name: set(collector._labelnames)  # type: ignore[attr-defined]
    for name, collector in REGISTRY._names_to_collectors.items()
}
OFTEN = {"instance", "job", "le"}
GRAFANA = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
print(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(json.load(sys.stdin))))
"""
PROMQL = """
import json, promql_parser, sys
for expression in json.load(sys.stdin):
    promql_parser.parse(expression.replace("$__rate_interval", "5m"))
"""


def test_the_exposition_is_read_by_both_parsers() -> None:
    """Prometheus' text format and OpenMetrics, with every family that is registered."""
    text = {family.name for family in parse(generate_latest(REGISTRY).decode())}
    assert {name for name in FAMILIES if name in text} == set(FAMILIES)
    assert {family.name for family in parse_openmetrics(generate_openmetrics(REGISTRY).decode())} >= set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_names_follow_the_conventions(family: Metric) -> None:
    """One prefix, snake_case, base units, no type in the name, a help text; what promtool's lint asks for."""
    name = family.name
    assert re.fullmatch(r"sidecar(_[a-z0-9]+)+", name)
    assert family.documentation.endswith(".")
    words = set(name.split("_"))
    assert not words & {"counter", "gauge", "histogram", "metric", "count", "sum", "bucket"}
    assert not words & {"ms", "milliseconds", "minutes", "hours", "kb", "mb", "percent"}
    assert family.type != "histogram" or name.endswith(("_seconds", "_bytes"))
    assert not name.endswith("_info") or family.type == "gauge"
    for label in LABELS.get(name, LABELS.get(f"{name}_total", set())):
        assert re.fullmatch(r"[a-z][a-z_]*", label)
        assert label not in {"le", "quantile", "instance", "job"}


def test_a_running_server_shows_every_series_that_is_asked_for(rules_sidecar: SidecarProcess) -> None:
    """Before the first request, too: what is empty is so because nothing happened. Each has its help text."""
    served = {family.name: family for family in parse(httpx.get(f"{rules_sidecar.admin}/metrics").text)}
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]] + [r["expr"] for r in rules()]
    wanted = {re.sub(r"_(bucket|total)$", "", name) for one in expressions for name, _ in asked(one)}
    assert wanted <= set(served)
    assert all(family.documentation for family in served.values())


def test_the_version_is_a_metric() -> None:
    """Which versions run is seen where everything else is."""
    assert REGISTRY.get_sample_value("sidecar_build_info", {"version": __version__}) == 1


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Every series of ours that an expression names, with the labels that it selects or groups by."""
    for name, selected in re.findall(r"\b(sidecar_[a-z_]+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected))


def check(expression: str) -> None:
    """Every name exists, and so does every label on it; groupings use labels of the expression's own series."""
    known: set[str] = set(OFTEN)
    for name, labels in asked(expression):
        base = re.sub(r"_bucket$", "", name)
        assert base in LABELS, f"{name} does not exist"
        assert labels <= LABELS[base] | OFTEN, f"{name} has no {labels - LABELS[base]}"
        known |= LABELS[base]
    grouped = {label.strip() for group in re.findall(r"\bby\s*\(([^)]*)\)", expression) for label in group.split(",")}
    assert grouped <= known, f"grouped by {grouped - known}"


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard."""
    found: list[dict[str, Any]] = json.loads((OBSERVABILITY / "dashboard.json").read_text("utf-8"))["panels"]
    return found


def test_the_dashboard_is_what_grafana_imports() -> None:
    """A title, a schema version, panels that have ids, places and targets of their own, and no fixed data source."""
    board = json.loads((OBSERVABILITY / "dashboard.json").read_text("utf-8"))
    assert {"title", "uid", "schemaVersion", "templating", "time", "panels"} <= set(board)
    assert len({panel["id"] for panel in panels()}) == len(panels())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places)
    for panel in panels():
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["targets"]
        assert panel["datasource"]["uid"] == "${source}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert {variable["name"] for variable in board["templating"]["list"]} == {"source", "instance"}


def lost(given: Any, kept: Any, place: str = "") -> Iterator[str]:
    """Where a value of the first is not the same in the second; that has defaults beside it."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            yield from lost(value, kept.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{place}.{number}")
    elif given != kept:
        yield place


def beside(program: str, given: str) -> str:
    """What a program of the neighbours' Python makes of it."""
    command: list[str | Path] = [neighbours.neighbours() / "python", "-c", program]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_dashboard_loads_in_grafanas_own_schema() -> None:
    """Read and written by Grafana's types (schema 11.6), all of it is there as it was: no field is unknown to them."""
    text = (OBSERVABILITY / "dashboard.json").read_text("utf-8")
    assert list(lost(json.loads(text), json.loads(beside(GRAFANA, text)))) == []


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_every_expression_is_promql() -> None:
    """A parser of the whole language reads those of the dashboard and of the alerts."""
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]] + [r["expr"] for r in rules()]
    beside(PROMQL, json.dumps(expressions))


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_panel_asks_for_series_that_exist(panel: dict[str, Any]) -> None:
    """Names, labels and groupings; and the legend shows labels that the expression keeps."""
    for target in panel["targets"]:
        check(target["expr"])
        kept = set(re.findall(r"\bby\s*\(([^)]*)\)", target["expr"]))
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        labels = {label.strip() for group in kept for label in group.split(",")} or OFTEN
        assert shown <= labels


def test_the_documentation_names_every_family() -> None:
    """Under the name that Prometheus shows."""
    page = (OBSERVABILITY.parent / "observability.md").read_text("utf-8")
    names = {f"{name}_total" if family.type == "counter" else name for name, family in FAMILIES.items()}
    assert {name for name in names if f"`{name}" not in page} == set()


def test_the_dashboard_leaves_no_family_out() -> None:
    """What is counted is shown; the exceptions are named."""
    shown = {
        re.sub(r"_(bucket|total)$", "", name) for p in panels() for t in p["targets"] for name, _ in asked(t["expr"])
    }
    elsewhere = {"sidecar_policy_info", "sidecar_generation", "sidecar_reloads", "sidecar_shadow"}
    assert set(FAMILIES) - shown <= elsewhere


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    found = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text("utf-8"))["groups"]
    return [rule for group in found for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_asks_for_series_that_exist(rule: dict[str, Any]) -> None:
    """Names and labels; a time, a severity, two texts; brackets that close."""
    check(rule["expr"])
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description"}
