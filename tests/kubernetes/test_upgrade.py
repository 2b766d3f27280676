"""Twin of sidecar/kubernetes/upgrade.py: changes by hand survive the next injection."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from kubernetes.test_objects import IMAGE, pod_of, workload

from sidecar.kubernetes.objects import Request, Result, inject, inject_all
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.upgrade import Merge

FIRST = Options(IMAGE, secret="llm", app_env=True)
OPTIONS = frozenset({"image", "upstream", "secret", "policies", "app_env", "redirect"})


def edited() -> dict[str, Any]:
    """An injected Deployment with everything tuned that operators tune."""
    document = inject(workload("Deployment"), FIRST)
    spec = pod_of(document)["spec"]
    (sidecar,) = spec["initContainers"]
    sidecar["resources"] = {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    sidecar["args"] = ["serve", "--no-first-key", "--workers", "2", "--config", "/etc/settings/config.yaml"]
    sidecar["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    sidecar["imagePullPolicy"] = "Always"
    sidecar["startupProbe"]["failureThreshold"] = 300
    sidecar["volumeMounts"].append({"name": "settings", "mountPath": "/etc/settings"})
    for name, value in (("LOG__RETENTION", "7d"), ("DRAIN__TIMEOUT", "200s"), ("LISTEN__PORT", "9090")):
        sidecar["env"] = [entry for entry in sidecar["env"] if entry["name"] != f"SIDECAR__{name}"]
        sidecar["env"].append({"name": f"SIDECAR__{name}", "value": value})
    sidecar["env"] = [entry for entry in sidecar["env"] if entry["name"] != "SIDECAR__LOG__FORMAT"]
    spec["volumes"][0]["emptyDir"]["sizeLimit"] = "5Gi"
    spec["volumes"].append({"name": "settings", "configMap": {"name": "settings"}})
    spec["containers"][0]["env"][0]["value"] = "http://127.0.0.1:9090/v1"
    return document


def again(document: dict[str, Any], *, reset: bool = False, **given: Any) -> Result:
    """A second injection on the command line, with these options."""
    request = Request(Options(**given), kept=OPTIONS - set(given), reset=reset)
    (result,) = inject_all([deepcopy(document)], request)
    return result


def sidecar_in(result: Result) -> dict[str, Any]:
    """The sidecar's container in it."""
    found: dict[str, Any] = pod_of(result.document)["spec"]["initContainers"][0]  # type: ignore[arg-type]
    return found


def by_name(document: object) -> Any:
    """The object with its lists as sets of entries: their order does not matter."""
    if isinstance(document, dict):
        return {name: by_name(value) for name, value in document.items()}
    return sorted(map(str, map(by_name, document))) if isinstance(document, list) else document


def test_a_newer_image_changes_nothing_but_the_image() -> None:
    """Resources, arguments, sources of variables, mounts, thresholds, sizes, values, and what was removed."""
    expected = edited()
    pod_of(expected)["spec"]["initContainers"][0]["image"] = "reg.example/x:2"
    result = again(edited(), image="reg.example/x:2")
    assert by_name(result.document) == by_name(expected)
    assert [note for note in result.notes if "OPENAI_API_KEY" not in note] == []
    assert again(edited()).state == "unchanged"


def test_an_option_changes_what_it_stands_for_and_nothing_else() -> None:
    """Another upstream, and the Secret removed; the other changes stay."""
    result = again(edited(), upstream="http://vllm:8000", secret=None)
    env = {entry["name"]: entry.get("value") for entry in sidecar_in(result)["env"]}
    assert (env["SIDECAR__UPSTREAM__URL"], env["SIDECAR__LOG__RETENTION"]) == ("http://vllm:8000", "7d")
    assert not {"SIDECAR__UPSTREAM__API_KEY_FILE", "SIDECAR__LOG__FORMAT"} & set(env)
    mounts = [mount["mountPath"] for mount in sidecar_in(result)["volumeMounts"]]
    assert mounts == ["/var/lib/prompt-sidecar", "/etc/settings"]
    assert result.notes == ()


def test_a_change_by_hand_that_an_option_overrides_is_named() -> None:
    """With the path, the value that was there, and the new one."""
    document = edited()
    sidecar = pod_of(document)["spec"]["initContainers"][0]
    sidecar["securityContext"]["runAsUser"] = 1000
    result = again(document, redirect=True, upstream="http://vllm:8000")
    assert "securityContext.runAsUser: 1000 is replaced by 61532" in result.notes


def test_a_reset_makes_the_sidecar_anew_and_names_what_is_lost() -> None:
    """Each change by hand, and no other value."""
    result = again(edited(), reset=True)
    assert sidecar_in(result) == pod_of(inject(workload("Deployment"), FIRST))["spec"]["initContainers"][0]
    notes = " ".join(result.notes)
    for lost in ("resources.requests.cpu: 2 is", "args: ", "envFrom: ", "imagePullPolicy: Always", "failureThreshold"):
        assert lost in notes
    for lost in ("env.SIDECAR__LOG__RETENTION: 7d is replaced by 24h", "emptyDir.sizeLimit: 5Gi is replaced by 1Gi"):
        assert lost in notes
    assert "livenessProbe" not in notes


@pytest.mark.parametrize(
    ("base", "old", "made", "merged", "resets"),
    [
        (1, 1, 2, 2, 0),
        (1, 3, 1, 3, 0),
        (1, 3, 2, 2, 1),
        (1, 2, 2, 2, 0),
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 2}, {"a": 2, "b": 2}, 0),
        ({"a": 1, "b": 1}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2}, 0),
        ([{"name": "a", "v": 1}], [{"name": "a", "v": 2}], [{"name": "b"}], [{"name": "b"}], 1),
        (["x"], ["x", "y"], ["z"], ["z"], 1),
    ],
)
def test_a_value_is_merged_three_ways(base: Any, old: Any, made: Any, merged: Any, resets: int) -> None:
    """A change on one side is taken over; of two changes the new injection's wins, and is counted."""
    merge = Merge(keep=True)
    assert (merge(base, old, made, "x"), len(merge.resets)) == (merged, resets)
