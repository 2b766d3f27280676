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


def rendered(changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the chart with these values; Go's own templates render them."""
    values = merged(changes)
    jsonschema.validate(values, SCHEMA)
    given = json.dumps({"Values": values, "Release": {"Namespace": "prompt-sidecar"}})
    command = [neighbours.go(), "run", HELM / "render.go", chart.CHART]
    made = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=600)
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


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


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_chart_renders_to_the_overlays() -> None:
    """All objects of gateway, injector and monitoring but the namespace, which Helm makes itself."""
    objects = rendered(yaml.safe_load((HELM / "overlay.yaml").read_text("utf-8")))
    wanted = [one for name in ("gateway", "injector", "monitoring") for one in chart.overlay(name)]
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in wanted if one["kind"] != "Namespace"}
    assert {(one["kind"], one["metadata"]["name"]): one for one in objects} == by_name


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
    objects = rendered({"gateway": gateway, "webhook": authority, "image": "reg/ps@sha256:0"})
    for one in objects:
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, "1.33", strict=True)
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
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
    webhook = named["Deployment", "prompt-sidecar-webhook"]["spec"]["template"]["spec"]["containers"][0]
    assert webhook["args"] == ["webhook", "--image", "reg/ps@sha256:0", "--mode=monitor"]
    assert not {"Certificate", "PodMonitor"} & {kind for kind, _ in named}
