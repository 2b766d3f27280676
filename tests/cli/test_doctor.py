"""Twin of sidecar/cli/doctor.py: recorded pods, by a file, standard input, or a kubectl that prints them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.test_inspection import APP, RUNNING, pod
from kubernetes.test_objects import workload
from support import sidecar

from sidecar.kubernetes.objects import inject
from sidecar.kubernetes.options import Options


def listed(*pods: dict[str, Any]) -> str:
    """As `kubectl get pods -o json` prints them."""
    named = [{"metadata": {"name": f"p{number}"}, **one} for number, one in enumerate(pods)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": named})


def doctor(*arguments: str, stdin: str = "", path: str | None = None) -> subprocess.CompletedProcess[str]:
    """`sidecar doctor` with these arguments."""
    environ = {"PATH": path} if path is not None else {}
    return sidecar(Path.cwd(), "doctor", *arguments, stdin=stdin.encode(), **environ)


def test_a_protected_pod_ends_with_0_and_an_unprotected_one_with_1() -> None:
    """Each pod by its name, with its findings."""
    assert doctor("-", stdin=listed(pod(**RUNNING))).returncode == 0
    mixed = doctor("-", "--json", stdin=listed(pod(**RUNNING), {"spec": {"containers": [APP]}}))
    shown = {one["pod"]: {finding["level"] for finding in one["findings"]} for one in json.loads(mixed.stdout)}
    assert (mixed.returncode, shown) == (1, {"Pod/p0": {"ok"}, "Pod/p1": {"error"}})


def test_with_strict_a_warning_ends_with_1() -> None:
    """Such as the provider's key, which an application keeps."""
    keeps = pod(app={**APP, "env": [{"name": "OPENAI_API_KEY", "valueFrom": {}}]}, **RUNNING)
    assert doctor("-", stdin=listed(keeps)).returncode == 0
    strict = doctor("-", "--strict", stdin=listed(keeps))
    assert (strict.returncode, "has OPENAI_API_KEY itself" in " ".join(strict.stdout.split())) == (1, True)
    assert doctor("-", "--strict", stdin=listed(pod(**RUNNING))).returncode == 0


def test_manifests_are_examined_by_the_pods_in_them(tmp_path: Path) -> None:
    """As `inject` writes them; objects without pods are left out."""
    injected = inject(workload("CronJob"), Options(app_env=True))
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all([{"kind": "Service"}, injected]), "utf-8")
    done = doctor(str(tmp_path / "m.yaml"))
    assert (done.returncode, "CronJob/x" in done.stdout) == (0, True), done.stderr


def test_manifests_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    """`n` is false there, and so is a name: it is shown as it is read, and no pod is without a name for it."""
    (tmp_path / "m.yaml").write_text("{kind: Pod, metadata: {name: n}, spec: {containers: [{name: a}]}}", "utf-8")
    assert "Pod/False" in doctor(str(tmp_path / "m.yaml")).stdout


def kubectl(folder: Path, script: str) -> str:
    """A PATH with a kubectl that runs this script."""
    (folder / "kubectl").write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    (folder / "kubectl").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_a_namespace_is_asked_of_kubectl(tmp_path: Path) -> None:
    """With its selector; what kubectl says on failure is passed on."""
    (tmp_path / "pods.json").write_text(listed(pod(**RUNNING)), "utf-8")
    path = kubectl(tmp_path, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/pods.json')
    assert doctor("--namespace", "shop", "-l", "app=x", path=path).returncode == 0
    asked = (tmp_path / "asked").read_text("utf-8")
    assert asked == "get --namespace=shop --output=json --selector=app=x -- pods\n"
    failed = doctor("-n", "shop", path=kubectl(tmp_path, "echo no cluster >&2; exit 1"))
    assert (failed.returncode, "no cluster" in failed.stderr) == (2, True)


SETTINGS = {
    "kind": "ConfigMap",
    "metadata": {"name": "shop", "namespace": "a"},
    "data": {"config.yaml": "mode: monitor"},
}
MONITOR = "mode: monitor forwards everything"


@pytest.mark.parametrize(("namespace", "is_seen"), [(None, True), ("a", True), ("b", False)])
def test_settings_in_a_config_map_of_the_file_are_read(tmp_path: Path, namespace: str | None, is_seen: bool) -> None:
    """That of the pod's namespace; otherwise the finding names it as not seen."""
    one = {
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": namespace},
        **pod(Options(config_map="shop"), **RUNNING),
    }
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all([SETTINGS, one]), "utf-8")
    shown = " ".join(doctor(str(tmp_path / "m.yaml")).stdout.split())
    assert (MONITOR in shown, "ConfigMap shop, which is not in the input" in shown) == (is_seen, not is_seen)


def test_settings_in_a_config_map_of_the_namespace_are_read(tmp_path: Path) -> None:
    """By a second question, which may be forbidden."""
    (tmp_path / "pods.json").write_text(listed(pod(Options(config_map="shop"), **RUNNING)), "utf-8")
    (tmp_path / "maps.json").write_text(json.dumps(SETTINGS), "utf-8")
    kind = 'case "$*" in *configmaps*) kind=maps;; *) kind=pods;; esac'
    script = f'echo "$@" >> {tmp_path}/asked; {kind}; cat {tmp_path}/$kind.json'
    shown = " ".join(doctor("-n", "a", path=kubectl(tmp_path, script)).stdout.split())
    assert MONITOR in shown
    asked = (tmp_path / "asked").read_text("utf-8").splitlines()
    assert asked[1] == "get --namespace=a --output=json --ignore-not-found -- configmaps shop"
    script = f"{kind}; test $kind = pods || exit 1; cat {tmp_path}/pods.json"
    assert "ConfigMap shop, which is not" in " ".join(doctor("-n", "a", path=kubectl(tmp_path, script)).stdout.split())


def test_a_name_in_a_manifest_is_no_option_of_kubectl(tmp_path: Path) -> None:
    """Who may make a pod could otherwise lead the operator's kubectl to another server."""
    hostile = pod(Options(config_map="shop"), **RUNNING)
    sidecar = next(one for one in hostile["spec"]["initContainers"] if one["name"] == "prompt-sidecar")
    sidecar["envFrom"] = [{"configMapRef": {"name": "--server=https://evil.example"}}]
    (tmp_path / "pods.json").write_text(listed(hostile), "utf-8")
    script = f'echo "$@" >> {tmp_path}/asked; cat {tmp_path}/pods.json'
    doctor("-n", "a", path=kubectl(tmp_path, script))
    asked = (tmp_path / "asked").read_text("utf-8").splitlines()
    assert len(asked) == 2
    assert "evil" not in asked[1]


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ((), "", "name a FILE"),
        (("-", "-n", "x"), "", "name a FILE"),
        (("-",), "a: [", "cannot be read"),
        (("-",), "kind: Service", "there are no pods"),
        (("-",), '{"kind": "Pod", "spec": {"containers": "many"}}', "cannot be read"),
        (("/no/such/file",), "", "No such file"),
        (("-n", "shop"), "", "kubectl get pods -n shop -o json | sidecar doctor -"),
    ],
)
def test_what_cannot_be_examined_is_one_message(arguments: tuple[str, ...], stdin: str, words: str) -> None:
    """Exit code 2, no traceback; without kubectl the way to do without."""
    done = doctor(*arguments, stdin=stdin, path="/nowhere")
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_a_selector_works_on_files_too(tmp_path: Path) -> None:
    """Equality, inequality and presence, as kubectl has them; no pod left is an error."""
    labelled = {"metadata": {"labels": {"app": "shop"}}, **pod(**RUNNING)}
    (tmp_path / "pods.json").write_text(
        json.dumps({"kind": "List", "items": [labelled, {"spec": {"containers": [APP]}}]})
    )
    for selector in ("app=shop", "app", "app!=db,app=shop", "!tier,app==shop"):
        assert doctor(str(tmp_path / "pods.json"), "-l", selector).returncode == 0, selector
    assert "no pods in it with the labels app=db" in doctor(str(tmp_path / "pods.json"), "-l", "app=db").stderr
