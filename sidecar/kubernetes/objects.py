"""Injects the sidecar into the pods of Kubernetes objects where requested, and removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sidecar.errors import InjectError
from sidecar.kubernetes.earlier import added_variables, options_of, without_base_url, without_sidecar
from sidecar.kubernetes.options import INJECT, PREFIX, Options, wants, with_annotations
from sidecar.kubernetes.pod import has_sidecar, with_sidecar
from sidecar.kubernetes.templates import Object, Pod, hidden_pod, path_of, pods

STATUS = PREFIX + "status"
"""The annotation on an injected sidecar: a new injection replaces it, and leaves a manually added one alone. As a label
it is what the PodMonitor selects."""
INJECTED = "injected"


@dataclass(frozen=True, slots=True)
class Request:
    """How to inject. `default`: into pods that do not ask, too. `kept`: options that an earlier injection decides.

    `paths` are those of further kinds (`sidecar.kubernetes.templates`).
    """

    options: Options
    default: bool = True
    kept: frozenset[str] = frozenset()
    paths: Mapping[str, str] = field(default_factory=dict)


class Result(NamedTuple):
    """One object after the injection; `document` None where it is left out because it failed."""

    name: str
    state: str
    reason: str
    document: object


def inject(document: Object, options: Options, *, default: bool = True) -> Object:
    """The object with the sidecar in its pod, or unchanged.

    `default`: inject without a request. Raises `InjectError`.
    """
    return _injected(document, Request(options, default))[0]


def inject_all(documents: Iterable[object], request: Request) -> list[Result]:
    """Every document with what became of it. One that fails is left out; lists keep their other entries."""
    return [_result(document, lambda one: _injected(one, request), request.paths) for document in _flat(documents)]


def uninject_all(documents: Iterable[object], paths: Mapping[str, str]) -> list[Result]:
    """Every document without the sidecar that was injected into it."""
    return [_result(document, lambda one: _uninjected(one, paths), paths) for document in _flat(documents)]


def _flat(documents: Iterable[object]) -> Iterator[object]:
    """The documents, lists of objects as their entries."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from _flat(document.get("items") or [])
        elif document is not None:
            yield document


def _result(document: object, change: Callable[[Object], tuple[Object, str, str]], paths: Mapping[str, str]) -> Result:
    if not isinstance(document, dict):
        return Result("a document", "skipped", "it is no object", document)
    name = f"{document.get('kind')}/{_name(document)}"
    if path_of(document, paths) is None:
        hidden = hidden_pod(document)
        way = f"; --path {document.get('kind')}={hidden} injects it" if hidden else ""
        return Result(name, "skipped", f"no pod of a known kind{way}", document)
    try:
        changed, state, reason = change(document)
    except InjectError as error:
        return Result(name, "failed", "; ".join(error.problems), None)
    return Result(name, state, reason, changed)


def _injected(document: Object, request: Request) -> tuple[Object, str, str]:
    if document.get("kind") == "List":
        listed = [_injected(item, request)[0] for item in document.get("items") or []]
        return {**document, "items": listed}, INJECTED, ""
    path = path_of(document, request.paths)
    if path is None:
        return document, "skipped", "no pod of a known kind"
    changed = deepcopy(document)
    outcomes = [_inject_pod(pod, request) for pod in pods(changed, path)]
    reason = next((words for state, words in outcomes if state == INJECTED), None)
    if reason is None:
        return document, *outcomes[0]
    return changed, "unchanged" if changed == document else INJECTED, reason


def _inject_pod(pod: Pod, request: Request) -> tuple[str, str]:
    """Inject into one pod; returns the state and its explanation."""
    metadata = _object(pod.holder, "metadata")
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    if not wants(labels, annotations, default=request.default):
        return "skipped", f"{INJECT} is not true" if not request.default else f"{INJECT} is false"
    earlier = annotations.get(STATUS) == INJECTED
    if has_sidecar(pod.spec) and not earlier:
        return "skipped", "its container prompt-sidecar was made by hand"
    kept = {name: value for name, value in options_of(pod.spec).items() if earlier and name in request.kept}
    options = with_annotations(replace(request.options, **kept), annotations)
    variables = added_variables(pod.spec) if kept else ()
    spec = without_base_url(pod.spec) if earlier and not options.app_env else pod.spec
    pod.replace(with_sidecar(spec, options, variables, pod.taken_ports))
    labels, annotations = {**labels, STATUS: INJECTED}, {**annotations, STATUS: INJECTED}
    pod.holder["metadata"] = {**metadata, "labels": labels, "annotations": annotations}
    return INJECTED, _summary(options)


def _summary(options: Options) -> str:
    switches = [name for name, on in (("app-env", options.app_env), ("redirect", options.redirect)) if on]
    named = [f"{name} {value}" for name, value in (("secret", options.secret), ("policies", options.policies)) if value]
    return ", ".join([options.image, f"upstream {options.upstream}", *named, *switches])


def _uninjected(document: Object, paths: Mapping[str, str]) -> tuple[Object, str, str]:
    changed = deepcopy(document)
    states = [_uninject_pod(pod) for pod in pods(changed, str(path_of(document, paths)))]
    if not any(states):
        return document, "skipped", "no sidecar of an injection"
    return changed, "removed", "a longer terminationGracePeriodSeconds stays"


def _uninject_pod(pod: Pod) -> bool:
    """Remove what an injection made. False if there was none."""
    metadata = _object(pod.holder, "metadata")
    if not has_sidecar(pod.spec) or _object(metadata, "annotations").get(STATUS) != INJECTED:
        return False
    pod.replace(without_sidecar(pod.spec))
    for name in ("labels", "annotations"):
        metadata[name] = {key: value for key, value in _object(metadata, name).items() if key != STATUS}
        if not metadata[name]:
            del metadata[name]
    if not metadata:
        del pod.holder["metadata"]
    return True


def _object(value: Object, name: str) -> Object:
    child = value.get(name) or {}
    if not isinstance(child, dict):
        raise InjectError("the sidecar cannot be injected", [f"{name} is not an object"])
    return child


def _name(document: Object) -> str:
    metadata = document.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, dict) else None
    return str(name or "without a name")[:80]
