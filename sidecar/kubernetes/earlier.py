"""What an earlier injection made of a pod: its options are read back, or all of it is removed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sidecar.kubernetes.pod import (
    BASE_URLS,
    NAME,
    OURS,
    REDIRECT,
    Spec,
    containers,
    is_our_volume,
    items,
    our_variables,
)


def sidecar_of(spec: Spec) -> Spec | None:
    """The sidecar's container, of whatever making; None if the pod has none."""
    return next((item for item in containers(spec) if item.get("name") == NAME), None)


def options_of(spec: Spec) -> dict[str, Any]:
    """The options with which the sidecar of this pod was injected, by name; empty without one."""
    sidecar = sidecar_of(spec)
    if sidecar is None:
        return {}
    mounted = {item.get("name"): item for item in items(spec, "volumes")}
    found = {
        "image": sidecar.get("image"),
        "upstream": value_of(sidecar, "SIDECAR__UPSTREAM__URL"),
        "secret": (mounted.get(f"{NAME}-secrets", {}).get("secret") or {}).get("secretName"),
        "policies": (mounted.get(f"{NAME}-policies", {}).get("configMap") or {}).get("name"),
        "app_env": any(value_of(app, "OPENAI_BASE_URL") in BASE_URLS for app in items(spec, "containers")),
        "redirect": any(item.get("name") == REDIRECT for item in items(spec, "initContainers")),
    }
    return {name: value for name, value in found.items() if value is not None or name in {"secret", "policies"}}


def value_of(item: Spec, name: str) -> str | None:
    """The value of a container's variable."""
    return next((entry.get("value") for entry in items(item, "env") if entry.get("name") == name), None)


def added_variables(spec: Spec) -> list[Spec]:
    """Variables of the sidecar that somebody added to it by hand."""
    known, sidecar = our_variables(), sidecar_of(spec) or {}
    return [entry for entry in items(sidecar, "env") if entry.get("name") not in known]


def without_sidecar(spec: Spec) -> Spec:
    """A copy without the sidecar, its volumes, and the base URL that led to it. A longer grace period stays."""
    pod = without_base_url(spec)
    pod["initContainers"] = [item for item in items(pod, "initContainers") if item.get("name") not in OURS]
    pod["volumes"] = [item for item in items(pod, "volumes") if not is_our_volume(item)]
    _drop_empty(pod, "initContainers")
    _drop_empty(pod, "volumes")
    return pod


def without_base_url(spec: Spec) -> Spec:
    """A copy in which no application is led to the sidecar."""
    pod = deepcopy(spec)
    for app in items(pod, "containers"):
        if any(_leads_to_us(entry) for entry in items(app, "env")):
            app["env"] = [entry for entry in items(app, "env") if not _leads_to_us(entry)]
            _drop_empty(app, "env")
    return pod


def _leads_to_us(entry: Spec) -> bool:
    return entry.get("name") == "OPENAI_BASE_URL" and entry.get("value") in BASE_URLS


def _drop_empty(value: Spec, name: str) -> None:
    if not value[name]:
        del value[name]
