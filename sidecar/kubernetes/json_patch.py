"""The difference of two JSON values as a JSON Patch (RFC 6902), for the API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def json_patch(old: Any, new: Any) -> list[dict[str, Any]]:
    """Operations that turn `old` into `new`. A list that differs is replaced as a whole."""
    return list(_difference(old, new, ""))


def _difference(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() - new.keys():
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name, value in new.items():
            here = f"{path}/{_escaped(name)}"
            if name in old:
                yield from _difference(old[name], value, here)
            else:
                yield {"op": "add", "path": here, "value": value}
    elif type(old) is not type(new) or old != new:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
