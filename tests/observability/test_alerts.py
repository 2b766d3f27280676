"""Each alert fires on series that simulate its trouble, and none on those of a healthy fleet; promtool evaluates."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import neighbours
import pytest
import yaml

from sidecar.config.scanning import InputFailure
from sidecar.kubernetes import webhook
from sidecar.observability import metrics
from sidecar.observability.watcher import OPEN_BY_DEFAULT

ALERTS = Path(__file__).parents[2] / "docs" / "observability" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]
}
A = 'job="proxy",instance="a"'
B = 'job="proxy",instance="b"'
BUCKETS = ("0.1", "1.0", "+Inf")
HEALTHY: dict[str, str] = {
    f"up{{{A}}}": "1x2000",
    f"up{{{B}}}": "1x2000",
    f'sidecar_build_info{{{A},version="1"}}': "1x2000",
    f'sidecar_build_info{{{B},version="1"}}': "1x2000",
    f"sidecar_ready{{{A}}}": "1x2000",
    f"sidecar_ready{{{B}}}": "1x2000",
    f"sidecar_workers_missing{{{A}}}": "0x400 1 1 0x1600",
    **{
        f'sidecar_dependency_up{{{A},dependency="{name}"}}': "1x600 0 1x1400"
        for name in ("store", "redis", "judge", "upstream")
    },
    f'sidecar_protection_reduced{{{A},reason="mode"}}': "0x2000",
    f'sidecar_protection_reduced{{{A},reason="keys"}}': "0x600 1x3 0x1400",
    f"sidecar_log_queue{{{A}}}": "0x500 100 900 1500 200 0x1500",
    # Pictures and references to files pass by default, all the time.
    f'sidecar_unscanned_forward_total{{{A},cause="media"}}': "0+60x2000",
    f'sidecar_unscanned_forward_total{{{A},cause="reference"}}': "0+60x2000",
    f'sidecar_unscanned_forward_total{{{A},cause="malformed"}}': "0x2000",
    f'sidecar_layer_failures_total{{{A},layer="llm_judge",cause="deadline"}}': "0+0.1x2000",
    f'sidecar_layer_failures_total{{{A},layer="semantic",cause="deadline"}}': "0x2000",
    f'sidecar_layer_seconds_count{{{A},layer="llm_judge"}}': "0+1x2000",
    f'sidecar_layer_seconds_count{{{A},layer="semantic"}}': "0+60x2000",
    **{f'sidecar_scan_seconds_bucket{{{A},door="inline",le="{le}"}}': "0+60x2000" for le in BUCKETS},
    f'sidecar_decisions_total{{{A},door="inline",action="allow"}}': "0+60x2000",
    f'sidecar_decisions_total{{{A},door="inline",action="block"}}': "0+1x2000",
    # A client with a broken body, again and again: no block of a scan.
    f'sidecar_decisions_total{{{A},door="inline",action="refuse"}}': "0+1x1000 1000+100x1000",
    f'sidecar_refused_total{{{A},door="inline",status="429"}}': "0+0.5x2000",
    f'sidecar_refused_total{{{A},door="inline",status="502"}}': "0+0.5x2000",
    f'sidecar_changes_not_applied{{{A},reason="rejected"}}': "0x600 1x3 0x1400",
    f'sidecar_changes_not_applied{{{A},reason="restart"}}': "0x700 2x3 0x1300",
    f'sidecar_sink_events_total{{{A},sink="splunk",outcome="sent"}}': "0+60x2000",
    f'sidecar_sink_events_total{{{A},sink="splunk",outcome="dropped"}}': "0x2000",
    f'sidecar_alerts_total{{{A},alert="block_spike",outcome="sent"}}': "0+1x2000",
    f'sidecar_alerts_total{{{A},alert="block_spike",outcome="failed"}}': "0x2000",
    f"sidecar_log_dropped_total{{{A}}}": "0x2000",
    f"sidecar_limits_local_total{{{A}}}": "0x2000",
    f'sidecar_judge_budget_left_ratio{{{A},budget="calls"}}': "0.7x2000",
    f'sidecar_policy_info{{{A},revision="r1"}}': "1x2000",
    f'sidecar_policy_info{{{B},revision="r1"}}': "1x600 _x20 1x1400",
    f'sidecar_policy_info{{{B},revision="r2"}}': "_x600 1x10 stale",
    # Another team, with rules of its own.
    'sidecar_policy_info{job="shop",namespace="team",pod="shop-1",instance="c",revision="own"}': "1x2000",
    **(
        WEBHOOK := {
            'up{job="prompt-sidecar-webhook",instance="w"}': "1x600 0 1x1400",
            'up{job="prompt-sidecar-webhook",instance="v"}': "1x2000",
            'sidecar_webhook_certificate_rejected{job="prompt-sidecar-webhook",instance="w"}': "0x700 1 1 0x1300",
        }
    ),
}
"""Two instances over 33 hours, a value a minute: short faults, a rollout, a few errors in a hundred."""


@dataclass(frozen=True)
class Trouble:
    """Series that replace or join the healthy ones (None: no series at all), and the labels of the alert at `at`."""

    alert: str
    series: dict[str, str | None]
    at: str = "60m"
    labels: dict[str, str] = field(default_factory=dict)


def down(name: str) -> dict[str, str | None]:
    """The gauge of a dependency that is away after ten minutes."""
    return {f'sidecar_dependency_up{{{A},dependency="{name}"}}': "1x10 0x200"}


ON_A = {"job": "proxy", "instance": "a"}
OF_PROXY = {"job": "proxy"}
POD = 'job="shop",namespace="team",pod="shop-1",instance="10.0.0.1:8081"'
ON_POD = {"job": "shop", "namespace": "team", "pod": "shop-1", "instance": "10.0.0.1:8081"}
TROUBLES = (
    Trouble("SidecarNotReady", {f"sidecar_ready{{{A}}}": "1x10 0x200"}, "13m", ON_A),
    Trouble(
        "SidecarGone",
        {f"up{{{A}}}": "1x10 0x200", f'sidecar_build_info{{{A},version="1"}}': "1x10 stale"},
        labels=ON_A,
    ),
    Trouble("SidecarGone", dict.fromkeys(HEALTHY, "1x10 stale")),
    Trouble("SidecarWorkersMissing", {f"sidecar_workers_missing{{{A}}}": "0x10 1x200"}, "17m", ON_A),
    # Away, or its disk is full.
    Trouble("SidecarStoreAway", down("store"), "13m", ON_A),
    *(Trouble("SidecarDependencyAway", down(name), "17m", ON_A | {"dependency": name}) for name in ("redis", "judge")),
    Trouble("SidecarDependencyAway", down("upstream"), "17m", ON_A | {"dependency": "upstream"}),
    # One row a second: reported long before the 10,000 of store.queue are reached.
    Trouble("SidecarLogWaits", {f"sidecar_log_queue{{{A}}}": "0+60x200"}, "20m", ON_A),
    Trouble(
        "SidecarForwardsUnscanned",
        {f'sidecar_unscanned_forward_total{{{A},cause="malformed"}}': "0x10 1+1x200"},
        "20m",
        OF_PROXY | {"cause": "malformed"},
    ),
    Trouble(
        "SidecarProtectionReduced",
        {f'sidecar_protection_reduced{{{A},reason="mode"}}': "0x10 1x200"},
        "17m",
        OF_PROXY | {"reason": "mode"},
    ),
    # A wrong key: six calls an hour, all of them fail.
    Trouble(
        "SidecarLayerFails",
        {
            f'sidecar_layer_failures_total{{{A},layer="llm_judge",cause="deadline"}}': "0+0.1x300",
            f'sidecar_layer_seconds_count{{{A},layer="llm_judge"}}': "0+0.1x300",
        },
        "120m",
        OF_PROXY | {"layer": "llm_judge"},
    ),
    Trouble(
        "SidecarScansSlow",
        {f'sidecar_scan_seconds_bucket{{{A},door="inline",le="+Inf"}}': "0+70x200"}
        | {f'sidecar_scan_seconds_bucket{{{A},door="inline",le="10.0"}}': "0+70x200"},
        labels=OF_PROXY | {"door": "inline"},
    ),
    # The store is away: 0.83 refusals a second, as many as requests.
    Trouble(
        "SidecarOverloaded",
        {
            f'sidecar_refused_total{{{A},door="own",status="503"}}': "0+50x200",
            f'sidecar_decisions_total{{{A},door="inline",action="allow"}}': "0x200",
        },
        "15m",
        ON_A,
    ),
    Trouble(
        "SidecarUpstreamFails", {f'sidecar_refused_total{{{A},door="inline",status="504"}}': "0+6x200"}, "20m", ON_A
    ),
    # One pod of a fleet whose upstream is away, while all others are well.
    Trouble(
        "SidecarUpstreamFails",
        {
            f'sidecar_refused_total{{{POD},door="inline",status="502"}}': "0+6x200",
            f'sidecar_decisions_total{{{POD},door="inline",action="allow"}}': "0+6x200",
        },
        "20m",
        ON_POD,
    ),
    Trouble("SidecarNotReady", {f"sidecar_ready{{{POD}}}": "1x10 0x200"}, "13m", ON_POD),
    Trouble(
        "SidecarWebhookAway",
        {
            'up{job="prompt-sidecar-webhook",instance="w"}': "1x10 0x200",
            'up{job="prompt-sidecar-webhook",instance="v"}': None,
        },
        "20m",
        {"job": "prompt-sidecar-webhook"},
    ),
    # The Deployment was deleted or scaled to zero: there is no target that could be down.
    Trouble("SidecarWebhookAway", dict.fromkeys(WEBHOOK, "1x10 stale"), "20m", {"job": "prompt-sidecar-webhook"}),
    Trouble(
        "SidecarWebhookCertificateRejected",
        {'sidecar_webhook_certificate_rejected{job="prompt-sidecar-webhook",instance="w"}': "0x10 1x200"},
        "17m",
        {"job": "prompt-sidecar-webhook", "instance": "w"},
    ),
    *(
        Trouble(
            "SidecarChangesNotApplied",
            {f'sidecar_changes_not_applied{{{A},reason="{reason}"}}': "0x10 1x200"},
            "17m",
            ON_A | {"reason": reason},
        )
        for reason in ("rejected", "restart")
    ),
    *(
        Trouble(
            "SidecarSinkLosesDecisions",
            {f'sidecar_sink_events_total{{{A},sink="splunk",outcome="{outcome}"}}': "0x10 1+1x200"},
            "20m",
            ON_A | {"sink": "splunk"},
        )
        for outcome in ("dropped", "rejected")
    ),
    Trouble(
        "SidecarAlertsNotSent",
        {f'sidecar_alerts_total{{{A},alert="block_spike",outcome="failed"}}': "0x10 1x200"},
        "20m",
        ON_A | {"alert": "block_spike"},
    ),
    Trouble(
        "SidecarBlocksUnusuallyMuch",
        {f'sidecar_decisions_total{{{A},door="inline",action="block"}}': "0+1x1000 1010+10x100"},
        "1030m",
        OF_PROXY,
    ),
    Trouble("SidecarLosesDecisions", {f"sidecar_log_dropped_total{{{A}}}": "0x10 1+1x200"}, "20m", ON_A),
    Trouble("SidecarLimitsAlone", {f"sidecar_limits_local_total{{{A}}}": "0x10 1+1x200"}, "20m", OF_PROXY),
    Trouble(
        "SidecarJudgeBudgetSpent",
        {f'sidecar_judge_budget_left_ratio{{{A},budget="calls"}}': "0.01 0.06 " * 60},
        labels=OF_PROXY | {"budget": "calls"},
    ),
    Trouble(
        "SidecarPoliciesDiffer",
        {f'sidecar_policy_info{{{B},revision="r1"}}': None, f'sidecar_policy_info{{{B},revision="r2"}}': "1x200"},
        labels=OF_PROXY,
    ),
)


FROM_THE_SETTINGS = {"budget", "revision", "version", "le"}
"""Labels whose values are not known before the settings are, or are bounds."""
SCRAPED = {"job", "instance", "namespace", "pod"}
"""Labels that Prometheus adds."""


def emitted_labels() -> dict[str, set[tuple[str, str]]]:
    """The labels of each sample that a process has before it served anything, of all dependencies."""
    found = {"sidecar_dependency_up": {("dependency", name) for name in metrics.DEPENDENCIES}}
    for family in (*metrics.REGISTRY.collect(), *webhook.REGISTRY.collect()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels.items())
    return found


def test_simulated_series_have_labels_that_are_emitted() -> None:
    """A trouble told by a label that no process has would prove nothing about its alert."""
    emitted = emitted_labels()
    troubles = {name: values for trouble in TROUBLES for name, values in trouble.series.items()}
    wrong = []
    for series in HEALTHY | troubles:
        name, _, labels = series.rstrip("}").partition("{")
        pairs = {match.groups() for match in re.finditer(r'(\w+)="([^"]*)"', labels)}
        own = {(key, value) for key, value in pairs if key not in FROM_THE_SETTINGS | SCRAPED}
        if name != "up" and not own <= emitted.get(name, set()):
            wrong.append(series)
    assert wrong == []


def group(series: dict[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    """A test group of promtool."""
    inputs = [{"series": name, "values": values.strip()} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def rendered(text: str, labels: dict[str, str]) -> str:
    """A text as Prometheus fills it in: parts on a label that is absent are left out."""
    block = r"\{\{ with \$labels\.(\w+) \}\}(.*?)\{\{ end \}\}"
    text = re.sub(block, lambda m: m[2].replace("{{ . }}", labels[m[1]]) if m[1] in labels else "", text)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def firing(trouble: Trouble) -> dict[str, Any]:
    """The expectation of one alert with its labels and texts."""
    rule = RULES[trouble.alert]
    labels = trouble.labels | rule["labels"]
    texts = {name: rendered(text, labels) for name, text in rule["annotations"].items()}
    alerts = [{"exp_labels": labels, "exp_annotations": texts}]
    return {"eval_time": trouble.at, "alertname": trouble.alert, "exp_alerts": alerts}


def evaluate(folder: Path, groups: list[dict[str, Any]]) -> str:
    """What promtool objects to; empty if all is as expected."""
    file = folder / "test.yaml"
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": groups}
    file.write_text(json.dumps(tests), "utf-8")  # JSON is YAML
    command = [neighbours.promtool(), "test", "rules", file]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return "" if process.returncode == 0 else process.stdout + process.stderr


def test_every_alert_has_a_simulated_trouble() -> None:
    """A new rule needs its series here."""
    assert {trouble.alert for trouble in TROUBLES} == set(RULES)


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: f"{trouble.alert} {trouble.labels}")
def test_an_alert_fires_on_its_trouble(trouble: Trouble, tmp_path: Path) -> None:
    """With the labels and the texts that an operator reads."""
    series = {name: values for name, values in (HEALTHY | trouble.series).items() if values is not None}
    assert evaluate(tmp_path, [group(series, [firing(trouble)])]) == ""


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_no_alert_fires_in_a_healthy_fleet(tmp_path: Path) -> None:
    """At any of many moments of more than a day, short faults and a rollout included."""
    moments = [{"eval_time": f"{minute}m", "alertname": name} for minute in range(30, 1981, 5) for name in RULES]
    assert evaluate(tmp_path, [group(HEALTHY, moments)]) == ""


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("series", [WEBHOOK, {'up{job="other",instance="o"}': "1x60 0x1940"}], ids=["webhook", "other"])
def test_no_alert_fires_where_no_sidecar_has_ever_been(series: dict[str, str], tmp_path: Path) -> None:
    """With the rules and the webhook installed before the first sidecar, or the rules alone."""
    moments = [{"eval_time": f"{minute}m", "alertname": name} for minute in range(0, 1981, 60) for name in RULES]
    assert evaluate(tmp_path, [group(series, moments)]) == ""


def test_what_passes_by_default_is_left_out_by_both_alerts_on_unscanned_requests() -> None:
    """By the rule for Prometheus and by the alert webhook: the settings that are open as shipped."""
    is_open = {name for name in InputFailure.model_fields if getattr(InputFailure(), name) == "allow"}
    assert is_open == OPEN_BY_DEFAULT
    (pattern,) = re.findall(r'cause!~"([^"]+)"', RULES["SidecarForwardsUnscanned"]["expr"])
    assert set(pattern.split("|")) == is_open


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_rules_pass_promtools_own_check() -> None:
    """Names, expressions and templates."""
    command = [neighbours.promtool(), "check", "rules", ALERTS]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0
