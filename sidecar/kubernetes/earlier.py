"""What an earlier injection made of a pod: its options are read back, or all of it is removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.kubernetes.base_urls import BASE, restored
from sidecar.kubernetes.pod import is_our_volume, our_variables
from sidecar.kubernetes.spec import NAME, OURS, REDIRECT, Spec, data_ports, items, leads_to, sidecar_of, value_of


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
        "app_env": any(leads_to(value_of(app, BASE), data_ports(spec)) for app in items(spec, "containers")),
        "redirect": any(item.get("name") == REDIRECT for item in items(spec, "initContainers")),
    }
    return {name: value for name, value in found.items() if value is not None or name in {"secret", "policies"}}


def added_variables(spec: Spec) -> list[Spec]:
    """Variables of the sidecar that somebody added to it by hand."""
    known, sidecar = our_variables(), sidecar_of(spec) or {}
    return [entry for entry in items(sidecar, "env") if entry.get("name") not in known]


def without_sidecar(spec: Spec, annotations: Mapping[str, object]) -> Spec:
    """A copy without the sidecar and its volumes, with the base URLs from before. A longer grace period stays."""
    pod = restored(spec, annotations)
    pod["initContainers"] = [item for item in items(pod, "initContainers") if item.get("name") not in OURS]
    pod["volumes"] = [item for item in items(pod, "volumes") if not is_our_volume(item)]
    _drop_empty(pod, "initContainers")
    _drop_empty(pod, "volumes")
    return pod


def _drop_empty(value: Spec, name: str) -> None:
    if not value[name]:
        del value[name]
