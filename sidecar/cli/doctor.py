"""The command `sidecar doctor`: whether the pods of a manifest or of a namespace are protected by the sidecar."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from sidecar.cli import output
from sidecar.cli.common import JSON, async_command, emit
from sidecar.errors import YAML_ERRORS, ConfigError, InjectError, SidecarError
from sidecar.util import yaml
from sidecar.util.files import describe_failure

if TYPE_CHECKING:
    from sidecar.kubernetes.bypass import Finding

KUBECTL_SECONDS = 60
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""A DNS subdomain, as Kubernetes names objects."""
_COLOURS = {"ok": "green", "skipped": "cyan", "warning": "yellow", "error": "red"}
Objects = list[dict[str, Any]]
Report = list[tuple[str, "list[Finding]"]]


@click.command("doctor", short_help="Examine the pods of a file or of a namespace.")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), required=False)
@click.option("-n", "--namespace", help="The pods of this namespace, by kubectl.")
@click.option("-l", "--selector", help="Only pods with these labels, such as app=shop,tier!=db.")
@click.option("--strict", is_flag=True, help="Exit code 1 for a warning, too, such as a key that an application has.")
@JSON
@async_command
async def doctor(file: Path | None, namespace: str | None, selector: str | None, strict: bool, as_json: bool) -> int:
    """Look at the pods of a FILE (manifests, or `kubectl get pods -o json`) or of a namespace.

    Shows for each pod the sidecar, its state, ports, upstream and key, settings that let more pass than the
    defaults, and whether the application is led to it. Settings in a ConfigMap are read if it is in the FILE, too, or
    if kubectl may read it.
    Pods labelled `prompt-sidecar/inject: "false"` and the webhook are skipped; clients of the gateway are recognized.
    Exit code 0: no error was found, 1: an error was found (`--strict`: or a warning), 2: nothing could be examined.
    """
    if (file is None) == (namespace is None):
        raise ConfigError("sidecar doctor", ["name a FILE (- for standard input) or a --namespace"])
    objects = _objects(_ask_kubectl(namespace, "pods", selector) if namespace else _read(file))
    if namespace:
        objects += _config_maps(namespace, objects)
    report = _examine(objects, None if namespace else selector)
    if not report:
        raise SidecarError("there are no pods in it" + (f" with the labels {selector}" if selector else ""))
    if as_json:
        emit([{"pod": name, "findings": [finding._asdict() for finding in findings]} for name, findings in report])
    else:
        _show(report)
    failing = {"error", "warning"} if strict else {"error"}
    return 1 if any(finding.level in failing for _, findings in report for finding in findings) else 0


def _read(file: Path | None) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else Path(str(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read", [describe_failure(error)]) from None


def _config_maps(namespace: str, objects: Objects) -> Objects:
    """The ConfigMaps with settings of these pods. Who may not read them is told that they are not seen."""
    from sidecar.kubernetes.inspection import config_maps_of  # noqa: PLC0415 - a server does without

    with _readable():
        names = sorted({name for item in objects for name in config_maps_of(item) if _NAME.fullmatch(name)})
    if not names:
        return []
    try:
        return _objects(_ask_kubectl(namespace, "configmaps", names=names))
    except SidecarError:
        return []


def _ask_kubectl(namespace: str, kind: str, selector: str | None = None, names: Sequence[str] = ()) -> str:
    """`names` come from manifests: they are no options."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        way = f"kubectl get pods -n {namespace} -o json | sidecar doctor -"
        raise SidecarError(f"kubectl is not on the PATH; where it is, run: {way}")
    command = [kubectl, "get", f"--namespace={namespace}", "--output=json"]
    command += [f"--selector={selector}"] if selector else []
    command += ["--ignore-not-found"] if names else []
    command += ["--", kind, *names]
    try:
        done = subprocess.run(command, capture_output=True, timeout=KUBECTL_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise SidecarError(f"kubectl did not answer within {KUBECTL_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()  # the last one is for people
        raise SidecarError(f"kubectl failed: {lines[-1][:300] if lines else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


def _objects(text: str) -> Objects:
    from sidecar.kubernetes.manifests import load_all  # noqa: PLC0415 - a server does without

    try:
        documents = load_all(text)
    except (yaml.YamlError, *YAML_ERRORS) as error:
        raise ConfigError("the pods cannot be read", [yaml.describe(error)]) from None
    return [item for document in documents if isinstance(document, dict) for item in _items(document)]


def _examine(objects: Objects, selector: str | None) -> Report:
    maps = [item for item in objects if item.get("kind") == "ConfigMap"]
    with _readable():
        return [entry for item in objects for entry in _findings(item, maps, selector)]


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (InjectError, AttributeError, TypeError) as error:
        raise ConfigError("the pods cannot be read", [" ".join(str(error).split())[:200]]) from None


def _maps_beside(metadata: dict[str, Any], maps: Objects) -> dict[str, dict[str, Any]]:
    """The ConfigMaps that pods of this object can name: those of its namespace, as far as the input says it."""
    home, items = metadata.get("namespace"), [(item.get("metadata") or {}, item) for item in maps]
    beside = [(theirs, item) for theirs, item in items if theirs.get("namespace") in {None, home} or home is None]
    return {str(theirs.get("name")): item for theirs, item in beside}


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed = document.get("items") if str(document.get("kind")).endswith("List") else [document]
    return [item for item in listed or [] if isinstance(item, dict)]


def _findings(document: dict[str, Any], maps: Objects, selector: str | None) -> Report:
    from sidecar.kubernetes.inspection import inspect  # noqa: PLC0415 - a server does without
    from sidecar.kubernetes.templates import path_of, pod_elsewhere, pods  # noqa: PLC0415

    # In a PodList the entries may lack their kind.
    typed = document if "kind" in document else {"kind": "Pod", **document}
    path = path_of(typed, {})
    if path is None or pod_elsewhere(typed):
        return []
    metadata = typed.get("metadata") or {}
    names = (metadata.get("name"), metadata.get("generateName"), "without a name")
    name = f"{typed['kind']}/{next(text for text in names if text is not None)}"
    place = f"{metadata['namespace']} {name}" if metadata.get("namespace") else name
    entries = [({**pod.holder, "spec": pod.spec}, pod.knative) for pod in pods(typed, path)]
    near = _maps_beside(metadata, maps)
    return [(place, inspect(pod, near, knative=knative)) for pod, knative in entries if _is_selected(pod, selector)]


def _is_selected(pod: dict[str, Any], selector: str | None) -> bool:
    """Whether a pod has the labels, by the selectors of equality that kubectl takes."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    for term in (selector or "").split(","):
        name, sign, value = term.replace("==", "=").strip().partition("=")
        negated = name.endswith("!") or (not sign and name.startswith("!"))
        key = name.strip("! ")
        has = labels.get(key) == value.strip() if sign else key in labels
        if key and has == negated:
            return False
    return True


def _show(report: Report) -> None:
    for name, findings in report:
        output.out.print(f"[bold]{escape(name)}[/]")
        for level, text in findings:
            output.out.print(f"  [{_COLOURS[level]}]{level}[/]  {escape(text)}")
