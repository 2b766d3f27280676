"""Twin of sidecar/kubernetes/objects.py, over every kind of workload."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest

from sidecar.errors import InjectError
from sidecar.kubernetes.json_patch import json_patch
from sidecar.kubernetes.manifests import load_all
from sidecar.kubernetes.objects import Request, inject, inject_all, uninject_all
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.spec import NAME

POD = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}
IMAGE = "registry.example/prompt-sidecar:0.1.0"
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


def everything_again(document: dict[str, Any], **given: Any) -> dict[str, Any]:
    """A second injection on the command line, with these options."""
    kept = frozenset(field.name for field in fields(Options)) - set(given)
    (result,) = inject_all([document], Request(Options(**given), kept=kept))
    assert isinstance(result.document, dict)
    return result.document


def test_injecting_again_keeps_what_was_set_before() -> None:
    """A newer image alone takes neither the key nor the policies nor the application's address away."""
    options = {"secret": "llm", "policies": "rules", "app_env": True, "upstream": "http://vllm:8000", "redirect": True}
    first = inject(workload("Deployment"), Options(**options))
    assert everything_again(first, image="x:2") == inject(workload("Deployment"), Options(image="x:2", **options))
    removed = everything_again(first, secret=None, redirect=False)
    assert removed == inject(workload("Deployment"), Options(**{**options, "secret": None, "redirect": False}))


def test_injecting_again_keeps_variables_that_somebody_added() -> None:
    """`mode: monitor` by hand stays; the webhook, which keeps nothing, makes the sidecar anew."""
    first = inject(workload("Deployment"), Options())
    own = {"name": "SIDECAR__MODE", "value": "monitor"}
    pod_of(first)["spec"]["initContainers"][0]["env"].append(own)
    again = everything_again(first, image="x:2")
    assert own in pod_of(again)["spec"]["initContainers"][0]["env"]
    assert own not in pod_of(inject(first, Options()))["spec"]["initContainers"][0]["env"]


def test_every_object_has_its_result_and_a_failing_one_does_not_take_the_others_along() -> None:
    """By kind and name; lists are gone through, empty documents left out."""
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}
    on_node = workload("DaemonSet", {"spec": {"hostNetwork": True, "containers": [{"name": "a"}]}})
    listed = {"kind": "List", "items": [workload("Job"), on_node]}
    results = inject_all([service, listed, None, "text"], Request(Options()))
    assert [(result.name, result.state) for result in results] == [
        ("Service/s", "skipped"),
        ("Job/x", "injected"),
        ("DaemonSet/x", "failed"),
        ("a document", "skipped"),
    ]
    assert results[0].document == service
    assert (results[2].document, "hostNetwork" in results[2].reason) == (None, True)
    again = inject_all([results[1].document], Request(Options()))
    assert [result.state for result in again] == ["unchanged"]


@pytest.mark.parametrize("kind", KINDS)
def test_removing_gives_the_pod_back(kind: str) -> None:
    """All but a longer grace period; one that was made by hand, and one without a sidecar, stay."""
    app = {"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}]}
    before = workload(kind, {"metadata": {}, "spec": {"containers": [app], "terminationGracePeriodSeconds": 90}})
    options = Options(secret="llm", app_env=True, redirect=True, upstream="http://x")
    (result,) = uninject_all([inject(before, options)], {})
    assert (result.state, pod_of(result.document)["spec"]) == ("removed", pod_of(before)["spec"])  # type: ignore[arg-type]
    (untouched,) = uninject_all([before], {})
    assert (untouched.state, untouched.document) == ("skipped", before)


def test_an_injected_pod_has_the_label_that_the_monitor_selects() -> None:
    """However it was asked for; its own labels stay."""
    metadata = pod_of(inject(workload("Deployment"), Options()))["metadata"]
    assert metadata["labels"] == {"app": "chat", "prompt-sidecar/status": "injected"}


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
    ("written", "shown"), [("n", "false"), ("y", "true"), ("off", "false"), ("12", "12"), ("[a]", '["a"]')]
)
def test_a_name_that_kubectl_reads_as_no_string_fails_with_the_way_out(written: str, shown: str) -> None:
    """The API server would refuse the object; in quotes it is a name."""
    manifest = f"{{kind: Pod, metadata: {{name: {written}}}, spec: {{containers: [{{name: app}}]}}}}"
    (result,) = inject_all(load_all(manifest), Request(Options()))
    assert (result.state, result.document) == ("failed", None)
    assert result.reason == f"its name is read as {shown}, by kubectl too: write it in quotes"
    (quoted,) = inject_all(load_all(manifest.replace(f"name: {written}", f'name: "{written}"', 1)), Request(Options()))
    assert quoted.state == "injected" or written == "[a]"


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
