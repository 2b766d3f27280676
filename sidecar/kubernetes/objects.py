"""Injects the sidecar into the pods of Kubernetes objects where requested, and removes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sidecar.errors import InjectError
from sidecar.kubernetes import base_urls
from sidecar.kubernetes.advice import advice
from sidecar.kubernetes.earlier import options_of, without_sidecar
from sidecar.kubernetes.options import INJECT, REPLACED, STATUS, Options, names_upstream, wants, with_annotations
from sidecar.kubernetes.pod import REDIRECTING_USER, USER, free_ports, has_sidecar, with_sidecar
from sidecar.kubernetes.spec import BASE, ports_of, sidecar_of, used_ports
from sidecar.kubernetes.templates import Object, Pod, hidden_pod, path_of, pod_elsewhere, pods
from sidecar.kubernetes.upgrade import upgrade
from sidecar.util import json

INJECTED = "injected"
_KNATIVE = "Knative refuses native sidecars in its objects (restartPolicy and probes of an init container)"
_BY_WEBHOOK = "the webhook puts the sidecar into the pods that Knative makes of it"


@dataclass(frozen=True, slots=True)
class Request:
    """How to inject. `default`: into pods that do not ask, too. `kept`: options that an earlier injection decides.

    `is_upstream_named`: if not, an application's own base URL is its sidecar's upstream. `reset`: the earlier sidecar
    is made anew, without what was changed in it by hand. `paths` are those of further
    kinds (`sidecar.kubernetes.templates`).
    """

    options: Options
    default: bool = True
    is_upstream_named: bool = False
    kept: frozenset[str] = frozenset()
    reset: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)


class Result(NamedTuple):
    """One object after the injection; `document` None where it is left out because it failed.

    `notes`: what the operator should know, a line each.
    """

    name: str
    state: str
    reason: str
    document: object
    notes: tuple[str, ...] = ()


class _Change(NamedTuple):
    """A pod or an object after the injection or the removal."""

    state: str
    reason: str
    notes: tuple[str, ...] = ()


def inject(document: Object, options: Options, *, default: bool = True) -> Object:
    """The object with the sidecar in its pod, or unchanged.

    `default`: inject without a request. Raises `InjectError`.
    """
    return injection(document, Request(options, default))[0]


def injection(document: Object, request: Request) -> tuple[Object, tuple[str, ...]]:
    """The object as `inject` returns it, and what the operator should know of it."""
    changed, outcome = _injected(document, request)
    return changed, outcome.notes


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


def _result(document: object, change: Callable[[Object], tuple[Object, _Change]], paths: Mapping[str, str]) -> Result:
    if not isinstance(document, dict):
        return Result("a document", "skipped", "it is no object", document)
    name = f"{document.get('kind')}/{_name(document)}"
    if problem := _name_problem(document):
        return Result(name, "failed", problem, None)
    if path_of(document, paths) is None:
        hidden = hidden_pod(document)
        way = f"; --path {document.get('kind')}={hidden} injects it" if hidden else ""
        return Result(name, "skipped", f"no pod of a known kind{way}", document)
    if elsewhere := pod_elsewhere(document):
        return Result(name, "skipped", f"its pod is in {elsewhere}", document)
    try:
        changed, outcome = change(document)
    except InjectError as error:
        return Result(name, "failed", "; ".join(error.problems), None)
    return Result(name, outcome.state, outcome.reason, changed, outcome.notes)


def _injected(document: Object, request: Request) -> tuple[Object, _Change]:
    if document.get("kind") == "List":
        listed = [_injected(item, request) for item in document.get("items") or []]
        notes = tuple(note for _, outcome in listed for note in outcome.notes)
        return {**document, "items": [item for item, _ in listed]}, _Change(INJECTED, "", notes)
    path = path_of(document, request.paths)
    if path is None or pod_elsewhere(document):
        return document, _Change("skipped", "no pod of a known kind")
    changed = deepcopy(document)
    outcomes = [_inject_pod(pod, request) for pod in pods(changed, path)]
    first = next((outcome for outcome in outcomes if outcome.state == INJECTED), None)
    if first is None:
        return document, outcomes[0]
    state = "unchanged" if changed == document else INJECTED
    return changed, _Change(state, first.reason, tuple(note for outcome in outcomes for note in outcome.notes))


def _inject_pod(pod: Pod, request: Request) -> _Change:
    """Inject into one pod."""
    metadata = _object(pod.holder, "metadata")
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    if not wants(labels, annotations, default=request.default):
        return _Change("skipped", f"{INJECT} is not true" if not request.default else f"{INJECT} is false")
    earlier = annotations.get(STATUS) == INJECTED
    if has_sidecar(pod.spec) and not earlier:
        return _Change("skipped", "its container prompt-sidecar was made by hand")
    if pod.knative:
        return _of_knative(labels)
    kept = {name: value for name, value in options_of(pod.spec).items() if earlier and name in request.kept}
    options = with_annotations(replace(request.options, **kept), annotations)
    is_named = request.is_upstream_named or "upstream" in kept or names_upstream(annotations)
    keep = bool(kept) and not request.reset
    ports = _ports(pod, options.data_port, keep=keep)
    replaced = base_urls.former(pod.spec, annotations, ports[0]) if options.app_env else {}
    if not is_named:
        options = replace(options, upstream=base_urls.upstream_of(replaced) or options.upstream)
    spec = base_urls.restored(pod.spec, annotations) if earlier and not options.app_env else pod.spec
    notes = tuple(base_urls.notes(spec, replaced, options, is_named=is_named)) if options.app_env else ()
    result = with_sidecar(spec, options, ports)
    resets = upgrade(pod.spec, result, keep=keep) if earlier else []
    tips = advice(result, options, REDIRECTING_USER if options.redirect else USER)
    pod.replace(result)
    _mark(pod, replaced)
    return _Change(INJECTED, _summary(options), (*notes, *resets, *tips))


def _of_knative(labels: Object) -> _Change:
    """Only the webhook can inject: it sees pods, and is asked by a label. Raises `InjectError` without that."""
    if str(labels.get(INJECT)).lower() == "true":
        return _Change("skipped", _BY_WEBHOOK)
    problem = f'{_KNATIVE}; label its template {INJECT}: "true", and {_BY_WEBHOOK}'
    raise InjectError("the sidecar cannot be injected", [problem])


def _ports(pod: Pod, first: int | None, *, keep: bool) -> tuple[int, int]:
    """The sidecar's ports: the given ones, those that it had, if no application took one since, or free ones."""
    sidecar = sidecar_of(pod.spec)
    if first is None and keep and sidecar and not set(ports_of(sidecar)) & {*used_ports(pod.spec)}:
        return ports_of(sidecar)
    return free_ports(pod.spec, first)


def _mark(pod: Pod, replaced: base_urls.Entries) -> None:
    """Name the injection, and the variables that it has replaced, in the pod's metadata."""
    metadata = _object(pod.holder, "metadata")
    others = {name: value for name, value in _object(metadata, "annotations").items() if name != REPLACED}
    annotations = {**others, STATUS: INJECTED, **({REPLACED: base_urls.annotation(replaced)} if replaced else {})}
    labels = {**_object(metadata, "labels"), STATUS: INJECTED}
    pod.holder["metadata"] = {**metadata, "labels": labels, "annotations": annotations}


def _summary(options: Options) -> str:
    switches = [name for name, on in (("app-env", options.app_env), ("redirect", options.redirect)) if on]
    mounted = (("secret", options.secret), ("policies", options.policies), ("config-map", options.config_map))
    named = [f"{name} {value}" for name, value in mounted if value]
    settings = [f"{key}={value}" for key, value in options.settings]
    return ", ".join([options.image, f"upstream {options.upstream}", *named, *switches, *settings])


def _uninjected(document: Object, paths: Mapping[str, str]) -> tuple[Object, _Change]:
    changed = deepcopy(document)
    removed = [words for pod in pods(changed, str(path_of(document, paths))) if (words := _uninject_pod(pod))]
    if not removed:
        return document, _Change("skipped", "no sidecar of an injection")
    return changed, _Change("removed", "; ".join(dict.fromkeys(removed)))


def _uninject_pod(pod: Pod) -> str | None:
    """Remove what an injection made, and say what of it stays. None if there was none."""
    metadata = _object(pod.holder, "metadata")
    annotations = _object(metadata, "annotations")
    if not has_sidecar(pod.spec) or annotations.get(STATUS) != INJECTED:
        return None
    pod.replace(without_sidecar(pod.spec, annotations))
    for name in ("labels", "annotations"):
        theirs = {key: value for key, value in _object(metadata, name).items() if key not in {STATUS, REPLACED}}
        metadata[name] = theirs
        if not theirs:
            del metadata[name]
    if not metadata:
        del pod.holder["metadata"]
    return ", ".join(_remains(pod, base_urls.stored_names(annotations)))


def _remains(pod: Pod, restored: Collection[str]) -> Iterator[str]:
    yield "its sidecar is gone"
    if restored:
        yield f"{BASE} of {', '.join(restored)} is again what it was"
    if "terminationGracePeriodSeconds" in pod.spec and not pod.knative:
        yield f"terminationGracePeriodSeconds: {pod.spec['terminationGracePeriodSeconds']} stays"


def _object(value: Object, name: str) -> Object:
    child = value.get(name) or {}
    if not isinstance(child, dict):
        raise InjectError("the sidecar cannot be injected", [f"{name} is not an object"])
    return child


def _name(document: Object) -> str:
    metadata = document.get("metadata")
    names = [metadata.get(key) for key in ("name", "generateName")] if isinstance(metadata, dict) else []
    return str(next((name for name in names if name is not None and name != ""), "without a name"))[:80]


def _name_problem(document: Object) -> str | None:
    """As no string `n`, `on` or `12` are read by kubectl, too; then the API server refuses the object."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name is None or isinstance(name, str):
        return None
    return f"its name is read as {json.dumps(name).decode()[:80]}, by kubectl too: write it in quotes"
