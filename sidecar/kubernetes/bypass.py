"""Whether a pod's applications send their prompts to a sidecar or to the gateway, and how they could bypass it.

Read from their variables, which clients of model APIs take base URLs and keys from. Sources of variables
(`envFrom`) and Secrets are not read, only named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sidecar.kubernetes.spec import (
    BASE,
    KEYS,
    NAME,
    OTHER_BASES,
    applications,
    base_url,
    base_url_arguments,
    early,
    items,
    leads_to,
    own_keys,
    sources,
    value_of,
)

Object = dict[str, Any]
FOREIGN_KEYS = tuple(key for key in KEYS if key != "OPENAI_API_KEY")
"""Those of a client of the gateway, whose OPENAI_API_KEY is the gateway's own key."""
CLIENT = f"{NAME}/client"
"""The label of a pod that may reach the gateway, by its network policy."""
_KEPT = "has {} itself, so it can reach the provider without the sidecar"


class Finding(NamedTuple):
    """One line of the report: `level` is `ok`, `skipped`, `warning` or `error`."""

    level: str
    text: str


def beside_sidecar(spec: Object, port: int, *, redirected: bool) -> Iterator[Finding]:
    """The findings on the applications of a pod whose sidecar listens on this port of the pod."""
    apps = applications(spec)
    is_any_led = redirected or any(leads_to(value_of(app, BASE), {port}) for app in apps)
    first = early(spec)
    for app in apps:
        base = value_of(app, BASE)
        if leads_to(base, {port}) and app in first:
            yield Finding("error", f"{_name(app)}: {BASE} leads to the sidecar, which starts after it")
        elif leads_to(base, {port}):
            yield Finding("ok", f"{_name(app)}: {BASE} leads to the sidecar")
        elif redirected:
            yield Finding("ok", f"{_name(app)}: its plain HTTP for the model is redirected to the sidecar")
        else:
            level = "warning" if is_any_led and base is None else "error"
            words = f"{BASE} is {base or 'not set'}, not {base_url(port)}: its prompts may bypass the sidecar"
            yield Finding(level, f"{_name(app)}: {words}")
        yield from _ways_past(app, {port}, redirected=redirected)


def _ways_past(
    app: Object, ports: Collection[int], *, redirected: bool = False, keys: Collection[str] = KEYS
) -> Iterator[Finding]:
    for name in OTHER_BASES:
        value = value_of(app, name)
        if name in _names(app) and not leads_to(value, ports):
            level = "warning" if redirected and str(value).startswith("http://") else "error"
            shown = value or "a value from elsewhere (valueFrom)"
            yield Finding(level, f"{_name(app)}: {name} is {shown}: prompts sent there bypass the sidecar")
    yield from _arguments(app, ports, redirected=redirected)
    yield from (Finding("warning", f"{_name(app)}: {_KEPT.format(key)}") for key in own_keys(app, keys))
    if origins := sources(app):
        words = "variables are not seen from here, and may hold a key or another base URL"
        yield Finding("warning", f"{_name(app)}: envFrom {', '.join(origins)}: its {words}")


def _arguments(app: Object, ports: Collection[int], *, redirected: bool) -> Iterator[Finding]:
    """Base URLs on the command line, which a client prefers to its variable."""
    for option, value in base_url_arguments(app):
        if value != value_of(app, BASE) and not leads_to(value, ports):
            level = "warning" if redirected and value.startswith("http://") else "error"
            yield Finding(level, f"{_name(app)}: {option} is {value}: prompts sent there bypass the sidecar")


def of_gateway(labels: Object, spec: Object) -> list[Finding]:
    """The findings on a pod without a sidecar that uses the gateway; empty if it does not."""
    apps = applications(spec)
    is_client = str(labels.get(CLIENT)).lower() == "true"
    if not any(_leads_to_gateway(value_of(app, BASE), is_client=is_client) for app in apps):
        return []
    return list(_gateway_findings(apps, is_client=is_client))


def _gateway_findings(apps: list[Object], *, is_client: bool) -> Iterator[Finding]:
    for app in apps:
        base = value_of(app, BASE)
        if _leads_to_gateway(base, is_client=is_client):
            yield Finding("ok", f"{_name(app)}: {BASE} leads to the gateway, {base}")
            yield from _ways_past(app, (), keys=FOREIGN_KEYS)
        elif base:
            words = f"{BASE} is {base}, not the gateway's: its prompts may bypass it"
            yield Finding("error", f"{_name(app)}: {words}")
    if not is_client:
        words = f'without the label {CLIENT}: "true" the shipped network policy keeps it from the gateway'
        yield Finding("warning", words)


def _leads_to_gateway(base: str | None, *, is_client: bool) -> bool:
    """A Service named as the shipped one; of a labelled client, any Service by plain HTTP or by its full name."""
    try:
        parts = urlsplit(base or "")
        host = parts.hostname or ""
    except ValueError:
        return False
    in_cluster = host.endswith((".svc", ".svc.cluster.local")) or (parts.scheme == "http" and host.count(".") <= 1)
    return bool(host) and (host.split(".")[0] == NAME or (is_client and in_cluster))


def _name(app: Object) -> str:
    return str(app.get("name") or "the container")


def _names(app: Object) -> set[object]:
    return {entry.get("name") for entry in items(app, "env")}
