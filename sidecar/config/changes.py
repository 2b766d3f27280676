"""What differs between two settings, for the audit trail and the log: names, and values where they are no free text.

Shown are numbers, switches, choices, layers, dates and file names. Of free text (addresses, messages, patterns, header
values, which may hold secrets or a prompt) only that it changed is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import BaseModel

from sidecar.config.settings import Settings
from sidecar.util.units import Rate, format_rate

_HIDDEN = "(not shown)"
_ABSENT = (None, "none")
_Leaf = tuple[object, str]


def settings_changes(old: Settings, new: Settings) -> list[str]:
    """A line for each changed setting, in the order of the sections: `mode enforce to monitor`."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return [
        _line(name, before.get(name, _ABSENT)[1], after.get(name, _ABSENT)[1])
        for name in dict.fromkeys((*before, *after))
        if before.get(name, _ABSENT)[0] != after.get(name, _ABSENT)[0]
        and not (_is_split(name, before, after) or _is_split(name, after, before))
    ]


def _is_split(name: str, whole: dict[str, _Leaf], parts: dict[str, _Leaf]) -> bool:
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


def _leaves(value: object, name: str = "", *, readable: bool = False) -> Iterator[tuple[str, _Leaf]]:
    """Every single setting by its name: the value that is compared, and how it is shown."""
    prefix = f"{name}." if name else ""
    if isinstance(value, BaseModel):
        for field, info in type(value).model_fields.items():
            yield from _leaves(getattr(value, field), prefix + field, readable=_is_choice(info.annotation))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{prefix}{key}", readable=readable)
    elif isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{prefix}{number}")
    else:
        yield name, (value, _display(value, readable=readable))


def _is_choice(annotation: object) -> bool:
    """Whether only listed words are allowed, also in a tuple or a dict, or beside None."""
    return get_origin(annotation) is Literal or any(_is_choice(part) for part in get_args(annotation))


def _display(value: object, *, readable: bool) -> str:
    if value is None:
        return "none"
    if isinstance(value, Rate):
        return format_rate(value)
    if isinstance(value, tuple):
        items = [_display(item, readable=readable) for item in value]
        return _HIDDEN if _HIDDEN in items else f"[{', '.join(items)}]"
    if isinstance(value, bool):
        return str(value).lower()
    is_plain = isinstance(value, int | float | date | Path | Enum) or readable
    return f"{value:g}" if isinstance(value, float) else str(value) if is_plain else _HIDDEN
