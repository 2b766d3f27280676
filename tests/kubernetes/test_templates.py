"""Twin of sidecar/kubernetes/templates.py: custom resources whose pods are where no Deployment has them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from sidecar.errors import InjectError
from sidecar.kubernetes.objects import Request, inject, inject_all, uninject_all
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import with_sidecar
from sidecar.kubernetes.templates import hidden_pod, path_of, pods
from sidecar.util import yaml

APP = {"name": "app", "image": "app:1"}
POD = {"spec": {"containers": [APP]}}


def resource(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A custom resource."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": deepcopy(spec)}


ROLLOUT = resource("argoproj.io/v1alpha1", "Rollout", {"template": POD})
KNATIVE = resource("serving.knative.dev/v1", "Service", {"template": POD})
TEMPLATES = {
    "templates": [
        {"name": "steps", "steps": []},
        {"name": "one", "container": APP, "volumes": [{"name": "own"}]},
        {"name": "code", "script": {**APP, "source": "print(1)"}},
        {"name": "set", "containerSet": {"containers": [APP, {"name": "b"}]}},
    ]
}
WORKFLOW = resource("argoproj.io/v1alpha1", "Workflow", TEMPLATES)
CRON = resource("argoproj.io/v1alpha1", "CronWorkflow", {"workflowSpec": TEMPLATES})
OWN = resource("x.io/v1", "Train", {"workers": [{"template": POD}, {"template": deepcopy(POD)}]})


@pytest.mark.parametrize(
    ("document", "paths", "number"),
    [
        (ROLLOUT, {}, 1),
        (WORKFLOW, {}, 3),
        (CRON, {}, 3),
        (OWN, {"Train": "spec.workers[].template"}, 2),
        (OWN, {"Train.x.io": "spec.workers[].template"}, 2),
    ],
)
def test_every_pod_of_a_resource_is_injected_and_given_back(
    document: dict[str, Any], paths: dict[str, str], number: int
) -> None:
    """Twice is once; what else stands in the resource stays."""
    (result,) = inject_all([document], Request(Options(app_env=True), paths=paths))
    assert (result.state, str(result.document).count("'--no-first-key'")) == ("injected", number)
    (again,) = inject_all([result.document], Request(Options(app_env=True), paths=paths))
    assert (again.state, again.document) == ("unchanged", result.document)
    (removed,) = uninject_all([result.document], paths)
    assert without_grace(removed.document) == document


def without_grace(value: Any) -> Any:
    """The same without the grace period, which an injection leaves behind."""
    if isinstance(value, dict):
        return {name: without_grace(child) for name, child in value.items() if not name.startswith("terminationGrace")}
    return [without_grace(child) for child in value] if isinstance(value, list) else value


def test_a_knative_service_is_left_to_the_webhook() -> None:
    """Knative refuses `restartPolicy` and probes of init containers; the reason names the way by a label."""
    (failed,) = inject_all([KNATIVE], Request(Options()))
    assert (failed.state, failed.document) == ("failed", None)
    assert "refuses native sidecars in its objects" in failed.reason
    assert 'prompt-sidecar/inject: "true", and the webhook' in failed.reason
    labelled = deepcopy(KNATIVE)
    labelled["spec"]["template"]["metadata"] = {"labels": {"prompt-sidecar/inject": "true"}}
    (left,) = inject_all([labelled], Request(Options()))
    assert (left.state, left.document) == ("skipped", labelled)
    assert "the webhook puts the sidecar into the pods" in left.reason


def test_a_pod_that_knative_made_takes_the_sidecar() -> None:
    """As Knative writes it: the application's port declared, its own container beside it."""
    queue = {"name": "queue-proxy", "image": "queue", "ports": [{"containerPort": 8012}]}
    app = {**APP, "ports": [{"name": "user-port", "containerPort": 8080}]}
    made = {"kind": "Pod", "spec": {"containers": [app, queue], "terminationGracePeriodSeconds": 300}}
    result = inject(made, Options())
    assert (result["spec"]["initContainers"][0]["restartPolicy"], "'18080'" in str(result)) == ("Always", True)


def test_a_sidecar_that_an_earlier_version_put_into_a_knative_service_is_removed() -> None:
    """Without a grace period, which Knative refuses as well."""
    spec = with_sidecar(KNATIVE["spec"]["template"]["spec"], Options())
    metadata = {"annotations": {"prompt-sidecar/status": "injected"}}
    document = resource("serving.knative.dev/v1", "Service", {"template": {"metadata": metadata, "spec": spec}})
    (removed,) = uninject_all([document], {})
    assert (removed.state, removed.document) == ("removed", KNATIVE)


def test_a_rollout_by_reference_is_skipped_with_the_place_of_its_pod() -> None:
    """It is written as it was, by an injection and by a removal: the Deployment beside it gets the sidecar."""
    reference = {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}}
    rollout = resource("argoproj.io/v1alpha1", "Rollout", reference)
    for (result,) in (inject_all([rollout], Request(Options())), uninject_all([rollout], {})):
        assert (result.state, result.reason, result.document) == ("skipped", "its pod is in Deployment/shop", rollout)


def test_a_core_service_is_no_knative_service() -> None:
    """Of two kinds with one name only that of the other group has pods."""
    assert path_of({"apiVersion": "v1", "kind": "Service"}, {}) is None
    assert path_of({"apiVersion": "apps/v1", "kind": "Deployment"}, {}) == "spec.template"


def test_an_unknown_kind_with_a_pod_is_skipped_with_the_option_that_would_inject_it() -> None:
    """The path is found in the object."""
    assert hidden_pod(OWN) == "spec.workers[].template"
    (result,) = inject_all([OWN], Request(Options()))
    assert (result.state, "--path Train=spec.workers[].template" in result.reason) == ("skipped", True)


@pytest.mark.parametrize("path", ["spec.absent", "spec.workers", "spec.workers[].template.spec"])
def test_a_path_without_a_pod_is_an_error_of_that_object(path: str) -> None:
    """Never an object without its sidecar."""
    with pytest.raises(InjectError):
        pods(OWN, path)


def test_a_pod_that_an_alias_of_yaml_repeats_is_injected_once() -> None:
    """Both places are one object."""
    shared = yaml.load("kind: Train\nspec: {workers: [&w {template: {spec: {containers: [{name: a}]}}}, *w]}")
    (result,) = inject_all([shared], Request(Options(), paths={"Train": "spec.workers[].template"}))
    assert (result.state, str(result.document).count("'--no-first-key'")) == ("injected", 2)
