"""The base URLs of a pod's applications: replaced by the sidecar's, stored in an annotation, and restored from it.

Where no upstream is named, the base URL that an application had is the sidecar's upstream: its prompts and its key go
where they went before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from urllib.parse import urlsplit

from sidecar.errors import InjectError
from sidecar.kubernetes.options import REPLACED, Options
from sidecar.kubernetes.spec import BASE, Spec, applications, base_url, data_ports, items, leads_to
from sidecar.util import json

_SUFFIX = "/v1"
_WAY = "name the upstream (--upstream, annotation prompt-sidecar/upstream-url)"
Entries = dict[str, Spec]
"""By the name of a container, its variable without the variable's name: a `value` or a `valueFrom`."""


def former(spec: Spec, annotations: Mapping[str, object], port: int) -> Entries:
    """The variables that the applications had before any injection; a later change of one by hand counts.

    `port`: where the sidecar will listen. A variable that leads there already was set for the sidecar.
    """
    stored, ports, entries = _stored(annotations), {port, *data_ports(spec)}, {}
    for app in applications(spec):
        name, entry = _name(app), _entry(app)
        if entry is not None and leads_to(entry.get("value"), ports):
            entry = stored.get(name)
        if entry is not None:
            entries[name] = {key: value for key, value in entry.items() if key != "name"}
    return entries


def annotation(entries: Entries) -> str:
    """The value of the annotation that keeps them."""
    return json.dumps(entries).decode()


def _stored(annotations: Mapping[str, object]) -> Entries:
    try:
        stored = json.loads(str(annotations.get(REPLACED, "{}")))
    except json.DecodeError:
        stored = None
    if not isinstance(stored, dict) or not all(isinstance(entry, dict) for entry in stored.values()):
        raise InjectError("the sidecar cannot be injected", [f"{REPLACED} is no JSON object of variables"])
    return stored


def upstream_of(entries: Entries) -> str | None:
    """The upstream that these base URLs mean; None without one. Raises `InjectError` where they mean no single one."""
    problems = [f"{name}: {problem}" for name, entry in entries.items() if (problem := _problem(entry))]
    upstreams = {name: _upstream(entry["value"]) for name, entry in entries.items() if "value" in entry}
    if not problems and len(set(upstreams.values())) > 1:
        listed = ", ".join(f"{name} {value}" for name, value in upstreams.items())
        problems = [f"the containers have different values of {BASE} ({listed})"]
    if problems:
        raise InjectError("the sidecar cannot be injected", [f"{problem}: {_WAY}" for problem in problems])
    return next(iter(upstreams.values()), None)


def _problem(entry: Spec) -> str | None:
    value = entry.get("value")
    if value is None:
        return f"{BASE} comes from elsewhere (valueFrom), so its value is not known"
    if not isinstance(value, str) or not _is_usable(value):
        return f"{BASE} is {str(value)[:200]!r}, which cannot be an upstream (http:// or https://, up to /v1)"
    return None


def _is_usable(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return (
        not set(value) & set("$?# @") and parts.scheme in {"http", "https"} and parts.path.rstrip("/").endswith(_SUFFIX)
    )


def _upstream(value: str) -> str:
    return value.rstrip("/").removesuffix(_SUFFIX)


def notes(spec: Spec, entries: Entries, options: Options, *, is_named: bool) -> Iterator[str]:
    """What an operator should know of the containers that are now led to the sidecar."""
    upstream = options.upstream
    for name, entry in entries.items():
        before = entry.get("value", "a value from elsewhere (valueFrom)")
        is_same = str(before).startswith(("http://", "https://")) and _upstream(str(before)) == upstream.rstrip("/")
        if not is_same:
            yield f"{name}: {BASE} was {before}, its requests are now forwarded to {upstream}"
        elif not is_named:
            yield f"{name}: {BASE} was {before}, which is now the sidecar's upstream"
            if options.secret:
                yield f"{name}: the key in the Secret {options.secret} is sent to {upstream}"
    for app in applications(spec):
        if _name(app) not in entries and entries and not is_named:
            yield f"{_name(app)}: had no {BASE}, its requests are forwarded to {upstream}, too"
        elif _name(app) not in entries and app.get("envFrom"):
            yield f"{_name(app)}: if its envFrom sets {BASE}, that value is replaced; requests go to {upstream}"


def point(app: Spec, port: int) -> None:
    """Set the variable once, at its previous position if it had one: later variables may refer to it."""
    _put(app, {"name": BASE, "value": base_url(port)})


def restored(spec: Spec, annotations: Mapping[str, object]) -> Spec:
    """A copy in which no application is led to the sidecar, and each has the variable that it had before."""
    pod, stored, ports = deepcopy(spec), _stored(annotations), data_ports(spec)
    for app in applications(pod):
        if leads_to((_entry(app) or {}).get("value"), ports):
            _put(app, {"name": BASE, **stored[_name(app)]} if _name(app) in stored else None)
    return pod


def stored_names(annotations: Mapping[str, object]) -> Collection[str]:
    """The containers whose variable the annotation keeps."""
    return _stored(annotations).keys()


def _put(app: Spec, entry: Spec | None) -> None:
    env = items(app, "env")
    places = [number for number, variable in enumerate(env) if variable.get("name") == BASE]
    first = places[0] if places else len(env)
    others = [variable for variable in env if variable.get("name") != BASE]
    app["env"] = [*others[:first], *([entry] if entry else []), *others[first:]]
    if not app["env"]:
        del app["env"]


def _entry(app: Spec) -> Spec | None:
    return next((entry for entry in reversed(items(app, "env")) if entry.get("name") == BASE), None)


def _name(app: Spec) -> str:
    return str(app.get("name") or "the container")
