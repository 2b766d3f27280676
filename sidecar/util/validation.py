"""What is wrong with a value of a settings or policy file, in words that need no knowledge of the validator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

_PLAIN = {
    "missing": "is missing",
    "model_type": "must be a section with settings below it",
    "model_attributes_type": "must be a section with settings below it",
    "dict_type": "must be a section with settings below it",
    "list_type": "must be a list, such as [a, b]",
    "tuple_type": "must be a list, such as [a, b]",
    "string_type": "must be a text; write it in quotes",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "path_type": "must be a path",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "needs at least {min_length} entries",
    "too_long": "takes at most {max_length} entries",
    "string_too_short": "needs at least {min_length} characters",
    "string_too_long": "takes at most {max_length} characters",
    "date_from_datetime_parsing": "must be a day, such as 2026-12-31",
    "date_parsing": "must be a day, such as 2026-12-31",
    "date_type": "must be a day, such as 2026-12-31",
    "string_pattern_mismatch": "does not have the form {pattern}",
}
_QUOTED = re.compile(r"'([^']*)'")
_YAML_WORDS = "; YAML reads on, off, yes and no as true and false: write the word in quotes"


def describe(item: Mapping[str, Any]) -> str:
    """One error of pydantic in plain words. Texts are not quoted: they may be secrets."""
    if item["type"] not in _PLAIN:
        return str(item["msg"]).removeprefix("Value error, ")
    value, message = item.get("input"), _PLAIN[item["type"]].format(**item.get("ctx", {}))
    if item["type"] in {"literal_error", "enum"} and isinstance(value, str):
        near = get_close_matches(value, _QUOTED.findall(message), 1, 0.6)
        return message + (f"; did you mean {near[0]}?" if near else "")
    if item["type"] == "missing" or isinstance(value, str | list | dict):
        return message
    shown = (
        {None: "nothing", True: "true", False: "false"}.get(value, str(value)) if _is_plain(value) else "another kind"
    )
    words = _YAML_WORDS if isinstance(value, bool) and "literal" in item["type"] else ""
    return f"{message}, not {shown}{words}"


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float)


def suggestion(model: type[BaseModel], place: tuple[str | int, ...]) -> str:
    """` (did you mean ...?)` for an unknown name at this place of a model; empty if nothing is close."""
    name = str(place[-1])
    joined = [setting for setting in settings_of(model) if setting.replace(".", "_") == "_".join(map(str, place))]
    near = joined or get_close_matches(name, _names(_below(model, place[:-1])), 1, 0.7)
    elsewhere = [setting for setting in settings_of(model) if setting.rsplit(".", 1)[-1] == name]
    if found := near or elsewhere[:1] or get_close_matches(".".join(map(str, place)), settings_of(model), 1, 0.8):
        return f"; did you mean {found[0]}?"
    return ""


def settings_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all settings of a model that are no sections themselves."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        section = field.annotation
        is_section = isinstance(section, type) and issubclass(section, BaseModel)
        names += settings_of(section, f"{prefix}{name}.") if is_section else [prefix + name]  # type: ignore[arg-type]
    return names


def _names(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _below(model: type[BaseModel] | None, place: Iterable[str | int]) -> type[BaseModel] | None:
    """The section at a place; names that are not fields are keys of a mapping of sections."""
    for part in place:
        if model is None:
            return None
        field = model.model_fields.get(str(part))
        model = _section(field.annotation) if field else model
    return model


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, by itself, optionally or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section(part))), None)
