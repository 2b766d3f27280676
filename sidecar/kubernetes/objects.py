"""Locates the pod template in a Kubernetes object and injects the sidecar where requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from sidecar.errors import InjectError
from sidecar.kubernetes.options import PREFIX, Options, wants, with_annotations
from sidecar.kubernetes.pod import has_sidecar, with_sidecar

STATUS = PREFIX + "status"
"""The annotation on an injected sidecar: a new injection replaces it, and leaves a manually added one alone."""
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
Object = dict[str, Any]


def inject_all(documents: Iterable[object], options: Options) -> list[object]:
    """Every document, with the sidecar injected into workloads and lists of them; others are unchanged."""
    return [inject(document, options) if isinstance(document, dict) else document for document in documents]


def inject(document: Object, options: Options, *, default: bool = True) -> Object:
    """The object with the sidecar in its pod, or unchanged.

    `default`: inject without a request. Raises `InjectError`.
    """
    kind = str(document.get("kind"))
    if kind == "List":
        items = document.get("items") or []
        return {**document, "items": [inject(item, options, default=default) for item in items]}
    path = _TEMPLATES.get(kind)
    if path is None:
        return document
    injected = deepcopy(document)
    pod = _below(injected, path)
    metadata, spec = _object(pod, "metadata"), pod.get("spec")
    if not isinstance(spec, dict) or not spec.get("containers"):
        raise InjectError(f"{kind} {_name(document)}", ["there is no pod with containers in it"])
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    if not wants(labels, annotations, default=default) or _made_by_hand(spec, annotations):
        return document
    pod["spec"] = with_sidecar(spec, with_annotations(options, annotations))
    metadata["annotations"] = {**annotations, STATUS: "injected"}
    pod["metadata"] = metadata
    return injected


def _made_by_hand(spec: Object, annotations: Object) -> bool:
    return has_sidecar(spec) and annotations.get(STATUS) != "injected"


def _below(value: Object, path: tuple[str, ...]) -> Object:
    for name in path:
        child = value.get(name)
        if not isinstance(child, dict):
            raise InjectError("the sidecar cannot be injected", [f"{name} is missing"])
        value = child
    return value


def _object(value: Object, name: str) -> Object:
    child = value.get(name) or {}
    if not isinstance(child, dict):
        raise InjectError("the sidecar cannot be injected", [f"{name} is not an object"])
    return child


def _name(document: Object) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "without a name"))[:80] if isinstance(metadata, dict) else "without a name"
