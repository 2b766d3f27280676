"""What an earlier injection made of a pod: its options are read back, or all of it is removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sidecar.kubernetes.base_urls import restored
from sidecar.kubernetes.options import OPTIONAL
from sidecar.kubernetes.pod import is_our_volume
from sidecar.kubernetes.spec import (
    BASE,
    NAME,
    OURS,
    REDIRECT,
    Spec,
    containers,
    data_ports,
    items,
    leads_to,
    sidecar_of,
    value_of,
)


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
        "config_map": (mounted.get(f"{NAME}-config", {}).get("configMap") or {}).get("name"),
        "app_env": any(leads_to(value_of(app, BASE), data_ports(spec)) for app in items(spec, "containers")),
        "redirect": any(item.get("name") == REDIRECT for item in items(spec, "initContainers")),
    }
    return {name: value for name, value in found.items() if value is not None or name in OPTIONAL}


def without_sidecar(spec: Spec, annotations: Mapping[str, object]) -> Spec:
    """A copy without the sidecar and the volumes that it alone mounts, with the base URLs from before.

    A longer grace period stays.
    """
    pod = restored(spec, annotations)
    pod["initContainers"] = [item for item in items(pod, "initContainers") if item.get("name") not in OURS]
    unused = _mounted(spec, OURS) - _mounted(spec, {item.get("name") for item in containers(pod)})
    remaining = [item for item in items(pod, "volumes") if not is_our_volume(item) and item.get("name") not in unused]
    pod["volumes"] = remaining
    _drop_empty(pod, "initContainers")
    _drop_empty(pod, "volumes")
    return pod


def _mounted(spec: Spec, names: Collection[str | None]) -> set[str | None]:
    """The volumes that the containers of these names mount."""
    ours = (item for item in containers(spec) if item.get("name") in names)
    return {mount.get("name") for item in ours for mount in items(item, "volumeMounts")}


def _drop_empty(value: Spec, name: str) -> None:
    if not value[name]:
        del value[name]
