"""Raw settings before validation: a YAML file, overridden by `SIDECAR__SECTION__KEY` from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from sidecar.errors import YAML_ERRORS, ConfigError

ENV_PREFIX = "SIDECAR__"


def read_file(path: Path | None) -> dict[str, Any]:
    """The settings of a file, default `config.yaml` if there is one. Raises `ConfigError`."""
    file = path or Path("config.yaml")
    if path is None and not file.exists():
        return {}
    try:
        values = yaml.safe_load(file.read_text("utf-8"))
    except yaml.MarkedYAMLError as error:  # its text quotes the line, which may hold a secret
        place = f"line {error.problem_mark.line + 1}, " if error.problem_mark else ""
        raise ConfigError(f"{file} cannot be read", [f"{place}{error.problem}"]) from None
    except (OSError, yaml.YAMLError, *YAML_ERRORS) as error:
        raise ConfigError(f"{file} cannot be read", [" ".join(str(error).split())]) from None
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
        except (OSError, yaml.YAMLError, *YAML_ERRORS) as error:
            problems.append(f"{name}: {error}")
        origin[".".join(keys)] = name
    return origin


def _value(keys: list[str], text: str, model: type[BaseModel]) -> tuple[list[str], Any]:
    """A `..._FILE` variable that is not a setting itself names the file that holds the value."""
    if keys[-1].endswith("_file") and not _is_setting(keys, model):
        return [*keys[:-1], keys[-1].removesuffix("_file")], Path(text).read_text("utf-8").strip()
    return keys, yaml.safe_load(text) if text else text


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
