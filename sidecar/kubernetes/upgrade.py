"""A second injection: what was changed by hand in the sidecar of the first one stays, or is named where it cannot.

A three-way merge: an earlier injection's own result, computed again from its options, is compared with what is in the
pod and with the new result. A value that differs from the earlier result was changed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.kubernetes.earlier import options_of
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import container, is_our_volume, redirection, volumes
from sidecar.kubernetes.spec import NAME, REDIRECT, Spec, items, ports_of, sidecar_of

_ABSENT: Any = object()
_KEYS = ("mountPath", "name", "containerPort")
"""What identifies an entry of a list; a volume mount by its path, since one volume may be mounted twice."""


class Merge:
    """A merge that keeps changes by hand (`keep`), or drops them; `resets` names those that are lost."""

    def __init__(self, *, keep: bool) -> None:
        self.resets: list[str] = []
        self._keep = keep

    def __call__(self, base: Any, old: Any, new: Any, path: str) -> Any:
        """The merged value, `_ABSENT` for none."""
        if old in (base, new):
            return new
        if self._keep and new == base:
            return old
        if all(isinstance(value, dict) for value in (base, old, new)):
            return self._mappings(base, old, new, path)
        if all(_is_keyed(value) for value in (base, old, new)):
            return list(self._mappings(_keyed(base), _keyed(old), _keyed(new), path).values())
        self.resets.append(f"{path.removesuffix('.value')}: {_shown(old)} is replaced by {_shown(new)}")
        return new

    def _mappings(self, base: Spec, old: Spec, new: Spec, path: str) -> Spec:
        merged = {}
        for name in dict.fromkeys((*new, *old)):
            of_base, of_old, of_made = (value.get(name, _ABSENT) for value in (base, old, new))
            merged[name] = self(of_base, of_old, of_made, f"{path}.{name}" if path else name)
        return {name: value for name, value in merged.items() if value is not _ABSENT}


def _is_keyed(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and set(item) & set(_KEYS) for item in value)


def _keyed(value: list[Spec]) -> Spec:
    return {str(next(item[key] for key in _KEYS if key in item)): item for item in value}


def _shown(value: object) -> str:
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    return "nothing" if value is _ABSENT else str(value)[:80]


def upgrade(old: Spec, new: Spec, *, keep: bool) -> list[str]:
    """Bring changes by hand from an injected pod into a newly injected one, in place. Returns what is lost."""
    sidecar = sidecar_of(old)
    if sidecar is None:
        return []
    merge, options, ports = Merge(keep=keep), Options(**options_of(old)), ports_of(sidecar)
    _merge_container(merge, container(options, ports), old, new, NAME)
    _merge_container(merge, redirection(options, ports), old, new, REDIRECT)
    before = {item["name"]: item for item in items(old, "volumes") if is_our_volume(item)}
    base = {item["name"]: item for item in volumes(options)}
    for place, volume in enumerate(new["volumes"]):
        name = volume.get("name")
        if is_our_volume(volume) and name in base and name in before:
            new["volumes"][place] = merge(base[name], before[name], volume, name)
    return merge.resets


def _merge_container(merge: Merge, base: Spec, old: Spec, new: Spec, name: str) -> None:
    before = next(_named(old, name), None)
    for place, item in enumerate(new["initContainers"]):
        if item.get("name") == name and before is not None:
            new["initContainers"][place] = merge(base, before, item, "")


def _named(spec: Spec, name: str) -> Iterator[Spec]:
    yield from (item for item in items(spec, "initContainers") if item.get("name") == name)
