"""Twin of tools/chart.py: the chart is made from the overlays, and renders to them again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import neighbours
import pytest
import yaml

import sidecar
from sidecar import config
from tools import chart

HELM = Path(__file__).parents[1] / "helm"
CUSTOM = {"PodMonitor", "PrometheusRule", "Issuer", "Certificate"}
VALUES: dict[str, Any] = yaml.safe_load((chart.CHART / "values.yaml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads((chart.CHART / "values.schema.json").read_text("utf-8"))


def merged(changes: dict[str, Any]) -> dict[str, Any]:
    """The values with these changes, as Helm merges them."""
    return {
        name: {**value, **changes.get(name, {})} if isinstance(value, dict) else changes.get(name, value)
        for name, value in VALUES.items()
    }


def process(changes: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """The templates with these values, rendered by Go's own templates."""
    values = merged(changes)
    jsonschema.validate(values, SCHEMA)
    given = json.dumps({"Values": values, "Release": {"Namespace": "prompt-sidecar"}})
    command = [neighbours.go(), "run", HELM / "render.go", chart.CHART]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=600)


def rendered(changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the chart with these values, all valid by the schemas of Kubernetes."""
    made = process(changes)
    assert made.returncode == 0, made.stderr
    objects = [one for one in yaml.safe_load_all(made.stdout) if one]
    for one in objects:
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, "1.33", strict=True)
    return objects


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def test_the_templates_are_those_of_the_overlays() -> None:
    """`python -m tools.chart` writes them: run it after a change of k8s/."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: `kubectl kustomize` builds the overlays")
    for path, text in chart.files().items():
        assert path.read_text("utf-8") == text, path.name


def test_the_notes_name_what_is_still_to_do() -> None:
    """A key, an account, and the Secret that the webhook's pods wait for; the same commands are in the guide."""
    notes = (chart.CHART / "templates" / "NOTES.txt").read_text("utf-8")
    guide = (chart.CHART.parents[1] / "docs" / "kubernetes.md").read_text("utf-8")
    for words in ("sidecar keys create", "sidecar admin create", "port-forward deploy/prompt-sidecar 8081"):
        assert words in notes
        assert words in guide
    assert "--secret" in notes


def test_the_chart_has_the_version_and_the_image_of_the_package() -> None:
    """One release of everything."""
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text("utf-8"))
    assert {described["version"], described["appVersion"]} == {sidecar.__version__}
    assert VALUES["image"] == f"prompt-sidecar:{sidecar.__version__}"


def test_every_value_is_used_and_in_the_schema() -> None:
    """A value that no template names would be set in vain; a misspelt one is refused by Helm."""
    text = "".join(path.read_text("utf-8") for path in (chart.CHART / "templates").iterdir())
    names = [f"{section}.{name}" for section, below in VALUES.items() if isinstance(below, dict) for name in below]
    assert [name for name in names if f".Values.{name}" not in text] == []
    jsonschema.validate(VALUES, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged({"gateway": {"upstraem": "x"}}), SCHEMA)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gateway": {"settings": {"mode": "bogus"}}}, "'bogus' is not one of"),
        ({"gateway": {"settings": {"responses": False}}}, "False is not one of"),
        ({"gateway": {"settings": {"layers.rules.enabled": "of"}}}, "'of' is not one of"),
        ({"gateway": {"settings": {"scan.treshold": 0.7}}}, "'scan.treshold' does not match"),
        ({"gateway": {"settings": {"scan": {"threshold": 0.7}}}}, "'scan' does not match"),
        ({"gateway": {"settings": {"log.bytes": 2_000_000}}}, "2000000 is greater than"),
        ({"gateway": {"settings": {"listen.hosts": ["a", "b"]}}}, "['a', 'b'] is not of type"),
        ({"gateway": {"podLabels": {"app": "mine"}}}, "should not be valid"),
        ({"webhook": {"tolerations": [{"effect": "NoSchedul"}]}}, "'NoSchedul' is not one of"),
        ({"webhook": {"extraEnv": [{"value": "x"}]}}, "'name' is a required property"),
        ({"imagePullSecrets": ["registry"]}, "'registry' is not of type 'object'"),
        ({"monitoring": {"labels": {"release": 1}}}, "1 is not of type 'string'"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_installed(values: dict[str, Any], words: str) -> None:
    """The pod would not start with it, or be none that the Service and the budget select."""
    with pytest.raises(jsonschema.ValidationError) as refused:
        jsonschema.validate(merged(values), SCHEMA)
    assert words in refused.value.message


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "monitor", "layers.rules.enabled": False},
        {"listen.hosts": "[a, b]", "log.bytes": "2000000"},
        {"admin.oidc.client_secret_file": "/run/secrets/oidc", "cache.url_file": "/run/u"},
        {"scan.deadline": "2s", "scan.threshold": 0.7},
    ],
)
def test_single_settings_are_values(settings: dict[str, Any]) -> None:
    """A number, a text, a choice, a list as text, and the path of a mounted Secret."""
    jsonschema.validate(merged({"gateway": {"settings": settings}}), SCHEMA)


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_chart_renders_to_the_overlays() -> None:
    """All objects of gateway, injector and monitoring but the namespace, which Helm makes itself."""
    objects = rendered(yaml.safe_load((HELM / "overlay.yaml").read_text("utf-8")))
    wanted = [one for name in ("gateway", "injector", "monitoring") for one in chart.overlay(name)]
    assert by_name(objects) == by_name([one for one in wanted if one["kind"] != "Namespace"])


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_operators_values_reach_the_objects(tmp_path: Path) -> None:
    """Settings, a file of them, rules, rules of egress, and a webhook without cert-manager; all are valid objects."""
    gateway = {
        "settings": {"scan.threshold": 0.7, "log.level": "debug"},
        "config": {"mode": "monitor", "block": {"message": 'No "this".'}},
        "policies": {"own.yaml": "family: jailbreak\n"},
        "egress": [{"ports": [{"port": 8000}]}],
    }
    authority = {"enabled": True, "certManager": False, "caBundle": "QQ==", "args": ["--mode=monitor"]}
    named = by_name(rendered({"gateway": gateway, "webhook": authority, "image": "reg/ps@sha256:0"}))
    container = named["Deployment", "prompt-sidecar"]["spec"]["template"]["spec"]["containers"][0]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (variables["SIDECAR__SCAN__THRESHOLD"], variables["SIDECAR__LOG__LEVEL"]) == ("0.7", "debug")
    assert container["args"][-1] == "/etc/prompt-sidecar/config/config.yaml"
    (tmp_path / "c.yaml").write_text(named["ConfigMap", "prompt-sidecar-config"]["data"]["config.yaml"], "utf-8")
    settings = config.load(tmp_path / "c.yaml", {})
    assert (settings.mode, settings.block.message) == ("monitor", 'No "this".')
    assert named["NetworkPolicy", "prompt-sidecar"]["spec"]["egress"][-1] == {"ports": [{"port": 8000}]}
    (hook,) = named["MutatingWebhookConfiguration", "prompt-sidecar"]["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "QQ=="
    assert "annotations" not in named["MutatingWebhookConfiguration", "prompt-sidecar"]["metadata"]
    webhook = named["Deployment", "prompt-sidecar-webhook"]["spec"]["template"]["spec"]["containers"][0]
    assert webhook["args"] == ["webhook", "--image", "reg/ps@sha256:0", "--mode=monitor"]
    assert not {"Certificate", "PodMonitor"} & {kind for kind, _ in named}


POD_VALUES: dict[str, Any] = {
    "serviceAccount": {"name": "scanner"},
    "podLabels": {"team": "platform", "number": "1"},
    "podAnnotations": {"example.com/scrape": "true"},
    "nodeSelector": {"pool": "apps"},
    "tolerations": [{"key": "apps", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {}},
    "extraEnv": [
        {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}}}
    ],
    "extraVolumes": [{"name": "judge", "secret": {"secretName": "judge"}}],
    "extraVolumeMounts": [{"name": "judge", "mountPath": "/run/secrets/judge", "readOnly": True}],
}


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["prompt-sidecar", "prompt-sidecar-webhook"])
def test_values_for_the_pods_reach_gateway_and_webhook(name: str) -> None:
    """Registry, account, labels, placement, variables and volumes; the label that selects the pod stays."""
    values = {"gateway": POD_VALUES, "webhook": POD_VALUES | {"enabled": True}, "imagePullSecrets": [{"name": "reg"}]}
    template = by_name(rendered(values))["Deployment", name]["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": name, **POD_VALUES["podLabels"]}
    assert template["metadata"]["annotations"] == POD_VALUES["podAnnotations"]
    spec = template["spec"]
    assert (spec["imagePullSecrets"], spec["serviceAccountName"]) == ([{"name": "reg"}], "scanner")
    assert {key: spec[key] for key in chart.POD_FIELDS} == {key: POD_VALUES[key] for key in chart.POD_FIELDS}
    assert spec["volumes"][-1:] == POD_VALUES["extraVolumes"]
    (container,) = spec["containers"]
    assert container["env"][-1:] == POD_VALUES["extraEnv"]
    assert container["volumeMounts"][-1:] == POD_VALUES["extraVolumeMounts"]


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_monitoring_alone_watches_the_gateway_where_prometheus_is() -> None:
    """Its PodMonitor, the way in through the NetworkPolicy, and the labels by which an operator selects."""
    monitoring = {"enabled": True, "namespace": "prom", "labels": {"release": "kube-prometheus-stack"}}
    named = by_name(rendered({"monitoring": monitoring}))
    monitors = [one for (kind, _), one in named.items() if kind in {"PodMonitor", "PrometheusRule"}]
    assert len(monitors) == 4
    assert all(one["metadata"]["labels"] == monitoring["labels"] for one in monitors)
    entry = named["NetworkPolicy", "prompt-sidecar"]["spec"]["ingress"][-1]
    assert entry["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}}]
    assert ("PodMonitor", "prompt-sidecar") in by_name(rendered({"gateway": {"podMonitor": True}}))
    assert not [kind for kind, _ in by_name(rendered({})) if kind == "PodMonitor"]


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_a_setting_replaces_the_variable_of_the_manifest() -> None:
    """A server that applies the objects itself, as Helm 4 asks it to, refuses two variables of one name."""
    settings = {"log.format": "console", "upstream.url": "http://model:8000", "policies": "[shipped]"}
    gateway = {"settings": settings, "policies": {"own.yaml": "family: jailbreak\n"}}
    made = by_name(rendered({"gateway": gateway}))["Deployment", "prompt-sidecar"]
    variables = made["spec"]["template"]["spec"]["containers"][0]["env"]
    names = [entry["name"] for entry in variables]
    assert len(names) == len(set(names))
    assert {"name": "SIDECAR__UPSTREAM__URL", "value": "http://model:8000"} in variables


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_without_cert_manager_the_error_says_what_is_missing() -> None:
    """Not only the name of a value."""
    refused = process({"webhook": {"enabled": True, "certManager": False}})
    assert refused.returncode != 0
    assert "the authority that signed the Secret prompt-sidecar-webhook-tls" in refused.stderr
