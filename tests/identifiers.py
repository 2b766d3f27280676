"""Identifiers that are common in requests, and requests that contain one of them.

Field names and enum values are collected from the types of the installed official SDKs; names of tools and their
properties are in `data/identifiers.txt`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

PLACES = ("tool", "property", "enum", "field")
_LISTS = (Path(__file__).parent / "data" / "identifiers.txt").read_text("utf-8").split("[properties]")
TOOLS = _LISTS[0].replace("[tools]", "").split()
PROPERTIES = _LISTS[1].split()


@lru_cache(maxsize=1)
def everything() -> list[str]:
    """All identifiers, unique and sorted."""
    words = {word for name in ("openai.types", "anthropic.types") for word in _of_sdk(name)}
    return sorted(words | {*TOOLS, *PROPERTIES})


def _of_sdk(name: str) -> Iterator[str]:
    """Keys of every TypedDict and values of every Literal in the parameter types of a package."""
    package = importlib.import_module(name)
    for info in pkgutil.walk_packages(package.__path__, f"{name}."):
        if info.name.endswith(("_param", "_params")):
            yield from _of_module(importlib.import_module(info.name))


def _of_module(module: ModuleType) -> Iterator[str]:
    for value in vars(module).values():
        if is_typeddict(value):
            yield from value.__annotations__
            for hint in get_type_hints(value, include_extras=True).values():
                yield from _literals(hint)
        else:
            yield from _literals(value)


def _literals(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield from (value for value in get_args(hint) if isinstance(value, str))
    else:
        for argument in get_args(hint):
            yield from _literals(argument)


def body(place: str, word: str) -> dict[str, Any]:
    """A row of a harmless chat request with this word in one place."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    function: dict[str, Any] = {"name": word if place == "tool" else "tool_a", "parameters": schema}
    if place == "property":
        schema |= {"properties": {word: {"type": "string"}}, "required": [word]}
    elif place == "enum":
        schema["properties"] = {"value": {"type": "string", "enum": [word]}}
    request: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    if place == "field":
        request |= {word: word} if word not in request else {}
    else:
        request["tools"] = [{"type": "function", "function": function}]
    return {"id": f"{place}-{word}", "body": request, "dialect": "chat", "benign": True}
