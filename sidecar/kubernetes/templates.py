"""Where the pods of a Kubernetes object are: by its kind, by a path that the operator names, or in Argo's templates.

A pod is handed out as `Pod`: a metadata and a specification that may be changed in place. Knative's objects can have no
native sidecar: its admission (`pkg/apis/serving` of knative/serving, main, May 2026) refuses `restartPolicy` and every
probe of an init container. The pods that it makes of them can; they get theirs from the webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.errors import InjectError

Object = dict[str, Any]
_TEMPLATE = "spec.template"
PATHS: Mapping[str, str] = {
    "Pod": "",
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": "spec.jobTemplate.spec.template",
    "Rollout.argoproj.io": _TEMPLATE,
    "Service.serving.knative.dev": _TEMPLATE,
    "Configuration.serving.knative.dev": _TEMPLATE,
    "Workflow.argoproj.io": "spec.templates[]",
    "WorkflowTemplate.argoproj.io": "spec.templates[]",
    "ClusterWorkflowTemplate.argoproj.io": "spec.templates[]",
    "CronWorkflow.argoproj.io": "spec.workflowSpec.templates[]",
}
"""Dotted paths by kind, of a custom resource with its group; `name[]` stands for each entry of a list."""
_ARGO = ("container", "script")
MAX_DEPTH = 8
"""Levels of an unknown kind that are searched for a pod."""


@dataclass(slots=True)
class Pod:
    """A pod within an object. `knative`: the object can hold no sidecar, and no termination grace period."""

    holder: Object
    spec: Object
    knative: bool = False

    def replace(self, spec: Object) -> None:
        """Put a changed specification where this one is."""
        if self.spec is self.holder.get("spec"):
            self.holder["spec"] = _without_grace(spec) if self.knative else spec
        else:
            _put_into_argo(self.holder, spec)


def path_of(document: Object, paths: Mapping[str, str]) -> str | None:
    """The path of the pods of an object; None if its kind has none."""
    kind = str(document.get("kind"))
    group, slash, _ = str(document.get("apiVersion") or "").rpartition("/")
    known = {**PATHS, **paths}
    qualified = known.get(f"{kind}.{group}") if slash else None
    # A core Service has no pod; the same name in another group is another kind.
    return qualified if qualified is not None else known.get(kind)


def pods(document: Object, path: str) -> list[Pod]:
    """The pods of an object. Raises `InjectError` if there are none."""
    knative = str(document.get("apiVersion") or "").startswith("serving.knative.dev/")
    holders = {id(holder): holder for holder in _below(document, path)}  # an alias of YAML is one object
    found = [pod for holder in holders.values() if (pod := _pod(holder, knative=knative))]
    if not found:
        raise InjectError("no pod", ["there is no pod with containers in it"])
    return found


def _pod(holder: Object, *, knative: bool) -> Pod | None:
    spec = holder.get("spec")
    if isinstance(spec, dict) and spec.get("containers"):
        return Pod(holder, spec, knative)
    return Pod(holder, argo) if (argo := _from_argo(holder)) else None


def _below(value: Object, path: str) -> Iterator[Object]:
    name, _, rest = path.partition(".")
    if not name:
        yield value
        return
    child = value.get(name.removesuffix("[]"))
    children = child if name.endswith("[]") and isinstance(child, list) else [child]
    for entry in children:
        if not isinstance(entry, dict):
            raise InjectError("no pod", [f"{name} is missing"])
        yield from _below(entry, rest)


def _from_argo(template: Object) -> Object | None:
    """A template of Argo Workflows as a specification; None if it runs no container (steps, dag, suspend)."""
    held = template.get("containerSet")
    containers = held.get("containers") if isinstance(held, dict) else None
    containers = containers or [template[name] for name in _ARGO if isinstance(template.get(name), dict)]
    others: Object = {name: template[name] for name in ("initContainers", "volumes") if name in template}
    return {"containers": containers, **others} if containers else None


def _put_into_argo(template: Object, spec: Object) -> None:
    for name in ("initContainers", "volumes"):
        template.pop(name, None)
        if spec.get(name):
            template[name] = spec[name]
    if isinstance(template.get("containerSet"), dict):
        template["containerSet"]["containers"] = spec["containers"]
    else:
        template[next(name for name in _ARGO if name in template)] = spec["containers"][0]


def _without_grace(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if name != "terminationGracePeriodSeconds"}


def pod_elsewhere(document: Object) -> str | None:
    """The object that has the pod of this one, such as `Deployment/shop` of Argo's Rollout by reference."""
    spec = document.get("spec")
    reference = spec.get("workloadRef") if isinstance(spec, dict) and not spec.get("template") else None
    return f"{reference.get('kind')}/{reference.get('name')}" if isinstance(reference, dict) else None


def hidden_pod(document: Object) -> str | None:
    """The path of a pod in an object of an unknown kind, to be named to the operator."""
    return next(_search(document, (), MAX_DEPTH), None)


def _search(value: object, path: tuple[str, ...], depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth:
        spec = value.get("spec")
        if path and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield ".".join(path)
        for name, child in value.items():
            yield from _search(child, (*path, str(name)), depth - 1)
    elif isinstance(value, list) and path and depth:
        for child in value[:20]:
            yield from _search(child, (*path[:-1], f"{path[-1]}[]"), depth - 1)
