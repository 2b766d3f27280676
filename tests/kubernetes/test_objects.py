"""Twin of sidecar/kubernetes/objects.py, over every kind of workload."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from sidecar.errors import InjectError
from sidecar.kubernetes.json_patch import json_patch
from sidecar.kubernetes.objects import inject, inject_all
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import NAME

POD = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}
KINDS = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")


def workload(kind: str, pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object of that kind around a pod."""
    inner = deepcopy(pod or POD)
    head = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}
    if kind == "Pod":
        return {**head, **inner, "metadata": {"name": "x", **inner["metadata"]}}
    template = {"spec": {"template": inner}}
    return {**head, **({"spec": {"jobTemplate": template}} if kind == "CronJob" else template)}


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    """The pod within."""
    if document["kind"] == "CronJob":
        document = document["spec"]["jobTemplate"]
    template: dict[str, Any] = document if document.get("kind") == "Pod" else document["spec"]["template"]
    return template


def annotated(**annotations: str) -> dict[str, Any]:
    """A pod with annotations of ours."""
    names = {f"prompt-sidecar/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**deepcopy(POD), "metadata": {"annotations": names}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_workload_gets_one_sidecar_and_no_more_the_second_time(kind: str) -> None:
    """The container comes first, what was there stays, and injecting again changes nothing."""
    before = workload(kind)
    original = deepcopy(before)
    injected = inject(before, Options())
    assert before == original
    spec = pod_of(injected)["spec"]
    assert [container["name"] for container in spec["initContainers"]] == [NAME]
    assert spec["containers"] == POD["spec"]["containers"]
    assert inject(injected, Options()) == injected
    assert json_patch(injected, inject(injected, Options())) == []


def test_a_newer_image_replaces_the_older_one() -> None:
    """Injecting is also how one upgrades."""
    injected = inject(inject(workload("Deployment"), Options()), Options(image="prompt-sidecar:2"))
    assert [container["image"] for container in pod_of(injected)["spec"]["initContainers"]] == ["prompt-sidecar:2"]


def test_lists_are_gone_through_and_other_kinds_left_alone() -> None:
    """A Service, a List with a Deployment, an empty document."""
    service = {"kind": "Service", "spec": {"ports": []}}
    injected = inject_all([service, {"kind": "List", "items": [service, workload("Job")]}, None], Options())
    assert (injected[0], injected[2]) == (service, None)
    listed: Any = injected[1]
    assert listed["items"][0] == service
    assert pod_of(listed["items"][1])["spec"]["initContainers"][0]["name"] == NAME


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_who_opts_out_is_left_alone_and_a_refusal_wins(where: str) -> None:
    """`false` in either place, whatever the other says."""
    opted_in = {"labels": {"prompt-sidecar/inject": "true"}, "annotations": {"prompt-sidecar/inject": "true"}}
    refusing = {**opted_in, where: {"prompt-sidecar/inject": "false"}}
    document = workload("Pod", {**POD, "metadata": refusing})
    assert inject(document, Options()) is document
    asking = workload("Pod", {**POD, "metadata": opted_in})
    assert inject(asking, Options(), default=False) != asking
    silent = workload("Pod")
    assert inject(silent, Options(), default=False) is silent


def test_a_sidecar_made_by_hand_is_left_alone() -> None:
    """A container of our name without our mark is somebody's decision."""
    manual = {"containers": [{"name": "app"}], "initContainers": [{"name": NAME, "image": "mine"}]}
    document = workload("Deployment", {"spec": manual})
    assert inject(document, Options()) is document


def test_annotations_choose_and_cannot_smuggle() -> None:
    """Upstream, Secret, policies and the application's variable by annotation; anything odd is refused by name."""
    annotated_pod = annotated(upstream_url="http://vllm:8000", upstream_secret="llm", policies="rules", app_env="true")
    spec = pod_of(inject(workload("Deployment", annotated_pod), Options()))["spec"]
    sidecar, env = spec["initContainers"][0], {}
    env = {variable["name"]: variable.get("value") for variable in sidecar["env"]}
    assert env["SIDECAR__UPSTREAM__URL"] == "http://vllm:8000"
    assert env["SIDECAR__UPSTREAM__API_KEY_FILE"] == "/run/secrets/prompt-sidecar/upstream-key"
    assert env["SIDECAR__POLICIES"] == "[shipped, /etc/prompt-sidecar/policies]"
    assert {variable["name"] for variable in spec["volumes"]} == {
        f"{NAME}-{x}" for x in ("data", "secrets", "policies")
    }
    assert spec["containers"][0]["env"] == [{"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:8080/v1"}]
    for odd in (
        annotated(upstream_url="file:///etc/passwd"),
        annotated(upstream_url="https://user:password@elsewhere"),
        annotated(upstream_url="https://x/$(SECRET)"),
        annotated(upstream_url="http://[::1"),
        annotated(upstream_secret="../token"),
        annotated(policies="UPPER"),
        annotated(app_env="yes"),
        annotated(image="evil:1"),
        {"metadata": {"annotations": {"prompt-sidecar/inject": True}}, "spec": POD["spec"]},
    ):
        with pytest.raises(InjectError):
            inject(workload("Deployment", odd), Options())


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "Deployment"},
        {"kind": "Deployment", "spec": {"template": {}}},
        {"kind": "Deployment", "spec": {"template": []}},
        {"kind": "Pod", "spec": {"containers": "many"}},
        {"kind": "Pod", "spec": {"containers": ["text"]}},
        {"kind": "Pod", "metadata": {"labels": "text"}, "spec": {"containers": [{"name": "a"}]}},
    ],
)
def test_what_is_no_workload_in_spite_of_its_kind_is_an_error(broken: dict[str, Any]) -> None:
    """A clear error, never a half-made pod."""
    with pytest.raises(InjectError):
        inject(broken, Options())
