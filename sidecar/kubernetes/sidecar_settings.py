"""The settings of a pod's sidecar, as far as they are seen: its variables, and the ConfigMaps that were given.

They are put together as the sidecar does it, the file first and the variables over it. What is in a Secret, in a volume
of another kind or in a ConfigMap that was not given is named as unseen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import re2

from sidecar.config import Settings, validated
from sidecar.config.sources import ENV_PREFIX
from sidecar.errors import YAML_ERRORS
from sidecar.kubernetes.spec import Spec, items
from sidecar.policy.reductions import Reduction, reductions
from sidecar.util import validation, yaml

ConfigMaps = Mapping[str, Spec]
"""The ConfigMaps of a pod's namespace by name."""
_CONFIG = re2.compile(r"(?:^|\s)--config[=\s]+(\S+)")
_SECRETS = ("url", "key", "token", "secret", "password")
"""Last words of settings whose value in a mounted file is a secret, and opens nothing."""


@dataclass(slots=True)
class SeenSettings:
    """`settings` None: they are refused, for `problems`. `read`: the ConfigMaps that hold a file."""

    settings: Settings | None = None
    problems: list[str] = field(default_factory=list)
    hidden_sources: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def reductions(self) -> list[Reduction]:
        """What lets more pass than the defaults; of refused settings, what each variable does alone."""
        if self.settings is not None:
            return reductions(self.settings)
        alone = (validated({}, {name: value})[0] for name, value in self.variables.items())
        return [each for settings in alone if settings is not None for each in reductions(settings)]


def settings_of(spec: Spec, sidecar: Spec, maps: ConfigMaps) -> SeenSettings:
    """The settings with which the sidecar of this pod starts."""
    view = SeenSettings()
    values = _file_values(spec, sidecar, maps, view)
    view.variables = dict(_variables(sidecar, maps, view))
    settings, problems = validated(copy.deepcopy(values), view.variables)
    view.settings, view.problems = (None if problems else settings), [*view.problems, *problems]
    return view


def config_map_names(spec: Spec, sidecar: Spec) -> set[str]:
    """The ConfigMaps that may hold settings of it."""
    sources = [entry.get("configMapRef") or {} for entry in items(sidecar, "envFrom")]
    sources += [(entry.get("valueFrom") or {}).get("configMapKeyRef") or {} for entry in items(sidecar, "env")]
    path = _path(sidecar)
    sources += _sources(volume_at(spec, sidecar, path)[0]) if path else []
    return {str(source["name"]) for source in sources if source.get("name")}


def volume_at(spec: Spec, sidecar: Spec, path: str) -> tuple[Spec, str]:
    """The volume that a path of the sidecar lies in, empty if it is none, and the path within it."""
    mounts = [mount for mount in items(sidecar, "volumeMounts") if _is_within(path, mount.get("mountPath"))]
    deepest = max(mounts, key=lambda mount: len(str(mount["mountPath"])), default=None)
    if deepest is None:
        return {}, ""
    inner = PurePosixPath(deepest.get("subPath") or "") / PurePosixPath(path).relative_to(deepest["mountPath"])
    volumes = items(spec, "volumes")
    return next((volume for volume in volumes if volume.get("name") == deepest.get("name")), {}), str(inner)


def _is_within(path: str, folder: object) -> bool:
    return isinstance(folder, str) and PurePosixPath(path).is_relative_to(folder)


def _path(sidecar: Spec) -> str | None:
    """The file that `--config` names."""
    words = " ".join(str(word) for name in ("command", "args") for word in sidecar.get(name) or [])
    match = _CONFIG.search(words)
    return str(match[1]) if match else None


def _sources(volume: Spec) -> list[Spec]:
    """The ConfigMaps in a volume, a projected one has several."""
    listed = [volume, *((volume.get("projected") or {}).get("sources") or [])]
    return [source["configMap"] for source in listed if isinstance(source.get("configMap"), dict)]


def _file_values(spec: Spec, sidecar: Spec, maps: ConfigMaps, view: SeenSettings) -> dict[str, Any]:
    path = _path(sidecar)
    if path is None:
        return {}
    volume, inner = volume_at(spec, sidecar, path)
    for source in _sources(volume):
        name = str(source.get("name") or source.get("configMap"))
        keys = {str(item.get("path")): item.get("key") for item in source.get("items") or []} or {inner: inner}
        text = ((maps.get(name) or {}).get("data") or {}).get(keys.get(inner))
        if isinstance(text, str):
            view.read.append(name)
            return _parsed(text, f"ConfigMap {name}, {inner}", view)
        view.hidden_sources.append(
            f"ConfigMap {name}, which is not in the input" if name not in maps else f"file {path}"
        )
        return {}
    view.hidden_sources.append(f"file {path}")
    return {}


def _parsed(text: str, place: str, view: SeenSettings) -> dict[str, Any]:
    try:
        values = yaml.load(text)
    except (yaml.YamlError, *YAML_ERRORS) as error:
        view.problems.append(f"{place}: {yaml.describe(error)}")
        return {}
    if values is not None and not isinstance(values, dict):
        view.problems.append(f"{place}: the top level must be a mapping of settings")
        return {}
    return values or {}


def _variables(sidecar: Spec, maps: ConfigMaps, view: SeenSettings) -> Iterator[tuple[str, str]]:
    """Those that are settings; a later one takes precedence."""
    for name, value in (*_from_sources(sidecar, maps, view), *_single_variables(sidecar, maps, view)):
        if not name.upper().startswith(ENV_PREFIX):
            continue
        if "$(" in value or _names_file(name, view):
            view.hidden_sources += [f"value of {name}"] if "$(" in value else []
            continue
        yield name, value


def _from_sources(sidecar: Spec, maps: ConfigMaps, view: SeenSettings) -> Iterator[tuple[str, str]]:
    for entry in items(sidecar, "envFrom"):
        name = (entry.get("configMapRef") or {}).get("name")
        if name not in maps:
            secret = (entry.get("secretRef") or {}).get("name")
            view.hidden_sources.append(f"Secret {secret} (envFrom)" if secret else f"ConfigMap {name} (envFrom)")
            continue
        data = maps[str(name)].get("data") or {}
        yield from ((f"{entry.get('prefix') or ''}{key}", str(value)) for key, value in data.items())


def _single_variables(sidecar: Spec, maps: ConfigMaps, view: SeenSettings) -> Iterator[tuple[str, str]]:
    for entry in items(sidecar, "env"):
        name, origin = str(entry.get("name")), entry.get("valueFrom")
        if not origin:
            yield name, str(entry.get("value") or "")
            continue
        source = origin.get("configMapKeyRef") or {}
        value = ((maps.get(str(source.get("name"))) or {}).get("data") or {}).get(source.get("key"))
        if value is not None:
            yield name, str(value)
        elif set(origin) & {"configMapKeyRef", "secretKeyRef"} and name.upper().startswith(ENV_PREFIX):
            view.hidden_sources.append(f"value of {name} (valueFrom)")


def _names_file(name: str, view: SeenSettings) -> bool:
    """Whether a variable names a file with the value of a setting, which is not read here."""
    setting = name[len(ENV_PREFIX) :].lower().replace("__", ".")
    if not setting.endswith("_file") or setting in validation.settings_of(Settings):
        return False
    if not setting.removesuffix("_file").endswith(_SECRETS):
        view.hidden_sources.append(f"file that {name} names")
    return True
