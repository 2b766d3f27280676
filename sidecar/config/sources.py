"""Raw settings before validation: a YAML file, overridden by `SIDECAR__SECTION__KEY` from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sidecar.errors import YAML_ERRORS, ConfigError
from sidecar.util import validation, yaml

ENV_PREFIX = "SIDECAR__"
_SERVICE_VARIABLE = re.compile(r"SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP)")


def variable(setting: str) -> str:
    """The environment variable of a setting: `SIDECAR__LISTEN__PORT` of `listen.port`."""
    return ENV_PREFIX + setting.upper().replace(".", "__")


def read_file(path: Path | None) -> dict[str, Any]:
    """The settings of a file, default `config.yaml` if there is one. Raises `ConfigError`."""
    file = path or Path("config.yaml")
    if path is None and not file.exists():
        return {}
    try:
        values = yaml.load(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read", [error.strerror or type(error).__name__]) from None
    except (yaml.YamlError, *YAML_ERRORS) as error:
        raise ConfigError(f"{file} cannot be read", [yaml.describe(error)]) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file} cannot be read", ["the top level must be a mapping of settings"])
    return values


def override(
    values: dict[str, Any], environ: Mapping[str, str], problems: list[str], model: type[BaseModel]
) -> dict[str, str]:
    """Merge the environment into `values`; returns which setting came from which variable."""
    origin: dict[str, str] = {}
    for name in sorted(environ):
        if not name.upper().startswith(ENV_PREFIX):
            continue
        keys = name[len(ENV_PREFIX) :].lower().split("__")
        try:
            keys, value = _value(keys, environ[name], model)
            _put(values, keys, value)
        except (OSError, yaml.YamlError, *YAML_ERRORS) as error:
            problems.append(f"{name}: {yaml.describe(error)}")
        origin[".".join(keys)] = name
    return origin


def unknown_variables(environ: Mapping[str, str], model: type[BaseModel]) -> list[str]:
    """Variables that look like settings and set nothing, each with what was probably meant."""
    near = {setting.replace(".", "_").upper(): setting for setting in validation.settings_of(model)}
    messages = []
    for name, value in sorted(environ.items()):
        rest = name.upper().removeprefix("SIDECAR_")
        if rest == name.upper() or rest.startswith("_") or rest == "API_KEY" or _of_a_service(rest, value):
            continue
        found = get_close_matches(rest.replace("__", "_"), near, 1, 0.8)
        meant = f"; did you mean {ENV_PREFIX}{near[found[0]].replace('.', '__').upper()}?" if found else ""
        messages.append(f"{name}: sets nothing, settings begin with {ENV_PREFIX}{meant}")
    return messages


def _of_a_service(name: str, value: str) -> bool:
    """Whether Kubernetes made the variable, for a Service whose name begins with `sidecar`."""
    return bool(_SERVICE_VARIABLE.search(name)) or (name.endswith("PORT") and "://" in value)


def _value(keys: list[str], text: str, model: type[BaseModel]) -> tuple[list[str], Any]:
    """A `..._FILE` variable that is not a setting itself names the file that holds the value."""
    if keys[-1].endswith("_file") and not _is_setting(keys, model):
        return [*keys[:-1], keys[-1].removesuffix("_file")], Path(text).read_text("utf-8").strip()
    return keys, yaml.load(text) if text else text


def _is_setting(keys: list[str], model: Any) -> bool:
    for key in keys:
        if not (isinstance(model, type) and issubclass(model, BaseModel) and key in model.model_fields):
            return False
        model = model.model_fields[key].annotation
    return True


def _put(values: dict[str, Any], keys: list[str], value: object) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise TypeError(f"{key} is a single value, it has no settings below it")
    values[keys[-1]] = value
