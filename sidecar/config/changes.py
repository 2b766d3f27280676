"""What differs between two settings, for the audit trail and the log: names, and values where they are no free text.

Shown are numbers, switches, choices, layers, dates and file names. Of free text (addresses, messages, patterns, header
values, which may hold secrets or a prompt) only that it changed is said. Of a profile and of a model only what is given
is a setting of its own; where it is not given, the setting that holds instead is named with its value.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from sidecar.config.settings import Settings
from sidecar.util.units import Rate, format_duration, format_rate, format_size, parse_duration, parse_size

_HIDDEN = "(not shown)"
_ABSENT = (None, "none")
_NO_MARK = ("none", "none")
_MARK_DIGITS = 6
"""Hexadecimal digits of the mark of a value that is not shown: few, so that it does not tell a guessed value."""
_OF_GIVEN = ("models", "profiles")
"""Settings of which only what is given counts."""
_LIKE_GENERAL = ("mode", "policies", "rules", "pii", "untrusted", "responses", "failure")
Form = Callable[[Any], str]
_FORMS: dict[object, Form] = {parse_duration: format_duration, parse_size: format_size}
"""How values are written that these read."""
_Leaf = tuple[object, str]
_Leaves = Mapping[str, _Leaf]
Record = dict[str, list[str]]
"""Settings that are not as by default: by name a mark, which differs when the value does, and how it is shown."""


def settings_changes(old: Settings, new: Settings) -> list[str]:
    """A line for each changed setting, in the order of the sections: `mode enforce to monitor`."""
    return _differences(dict(_leaves(old)), dict(_leaves(new)))


def displays(settings: Settings) -> dict[str, str]:
    """Every setting with its value, free text left out."""
    return {name: display for name, (_, display) in _leaves(settings)}


def record(settings: Settings, key: bytes) -> Record:
    """The settings that are not as by default, to be compared later; `key` keys the marks of what is not shown."""
    leaves, general = _marked(settings, key), _marked(Settings(), key)
    return {name: [str(leaf[0]), leaf[1]] for name, leaf in leaves.items() if general.get(name, _NO_MARK) != leaf}


def record_changes(old: Record, new: Record) -> list[str]:
    """As `settings_changes`, between two records. A default that another version of the program has is no change."""
    general = dict(_leaves(Settings()))
    defaults: dict[str, _Leaf] = {name: (display, display) for name, (_, display) in general.items()}
    before, after = (defaults | {name: (mark, text) for name, (mark, text) in texts.items()} for texts in (old, new))
    return _differences(before, after)


def _marked(settings: Settings, key: bytes) -> dict[str, _Leaf]:
    return {name: (_mark(value, display, key), display) for name, (value, display) in _leaves(settings)}


def _mark(value: object, display: str, key: bytes) -> str:
    if display != _HIDDEN:
        return display
    return hmac.digest(key, repr(value).encode(), "sha256").hex()[:_MARK_DIGITS]


def _differences(before: _Leaves, after: _Leaves) -> list[str]:
    return [
        _line(name, _value_of(name, before), _value_of(name, after))
        for name in dict.fromkeys((*before, *after))
        if before.get(name, _ABSENT)[0] != after.get(name, _ABSENT)[0]
        and not (_is_split(name, before, after) or _is_split(name, after, before))
    ]


def _value_of(name: str, leaves: _Leaves) -> str:
    """The value, or where there is none that which holds instead, with the name of its setting."""
    display = leaves.get(name, _ABSENT)[1]
    if display != _ABSENT[1]:
        return display
    for general in _general(name):
        value = leaves.get(general, _ABSENT)[1]
        if value not in {_ABSENT[1], _HIDDEN}:
            return f"{value} ({general})"
    return display


def _general(name: str) -> Iterator[str]:
    """The settings that hold where this one is not given, the nearest first."""
    section, _, path = name.partition(".")
    term = path.partition(".")[2] if section in _OF_GIVEN else ""
    if section == "profiles" and term.partition(".")[0] in _LIKE_GENERAL:
        yield term
    if section == "profiles" and term.startswith("sources."):
        yield f"scan.{term}"
    if name.endswith(".threshold") and (section in _OF_GIVEN or name.startswith("scan.sources.")):
        yield "scan.threshold"


def _is_split(name: str, whole: _Leaves, parts: _Leaves) -> bool:
    """Whether an empty list of one side has entries on the other, which are named themselves."""
    return name in whole and name not in parts and any(other.startswith(f"{name}.") for other in parts)


def shortened(changes: list[str], limit: int) -> str:
    """As many of them as fit into `limit` characters, and how many more there are."""
    for count in range(len(changes), 0, -1):
        surplus = len(changes) - count
        line = ", ".join(changes[:count]) + (f" and {surplus} more" if surplus else "")
        if len(line) <= limit:
            return line
    return f"{len(changes)} changes"


def _line(name: str, before: str, after: str) -> str:
    return f"{name} changed" if _HIDDEN in {before, after} else f"{name} {before} to {after}"


def _leaves(value: object, name: str = "", form: Form | None = None) -> Iterator[tuple[str, _Leaf]]:
    """Every single setting by its name: the value that is compared, and how it is shown."""
    prefix = f"{name}." if name else ""
    if isinstance(value, BaseModel):
        only_given = name.partition(".")[0] in _OF_GIVEN
        for field, info in type(value).model_fields.items():
            if not only_given or (field in value.model_fields_set and getattr(value, field) is not None):
                yield from _leaves(getattr(value, field), prefix + field, _form(info.annotation, info.metadata))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{prefix}{key}", form)
    elif isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{prefix}{number}")
    else:
        yield name, (value, _display(value, form))


def _form(annotation: object, metadata: Iterable[object] = ()) -> Form | None:
    """How a value of such a field is written, if its type does not tell that; also in a tuple, or beside None."""
    for validator in (*metadata, *getattr(annotation, "__metadata__", ())):
        if (form := _FORMS.get(getattr(validator, "func", None))) is not None:
            return form
    if get_origin(annotation) is Literal:
        return str
    return next((form for part in get_args(annotation) if (form := _form(part)) is not None), None)


def _display(value: object, form: Form | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, Rate):
        return format_rate(value)
    if isinstance(value, tuple):
        items = [_display(item, form) for item in value]
        return _HIDDEN if _HIDDEN in items else f"[{', '.join(items)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if form is not None:
        return form(value)
    is_plain = isinstance(value, int | float | date | Path | Enum)
    return f"{value:g}" if isinstance(value, float) else str(value) if is_plain else _HIDDEN
