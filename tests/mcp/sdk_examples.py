"""Writes an example of every message of the protocol, from the types of the official SDK: python sdk_examples.py FILE.

Every string of an example is a marker of its own, so that a test can look for each in what is scanned. Runs in an
environment with the SDK (`build/clients/mcp`); the file that it writes is `tests/data/mcp_examples.json`.
"""

from __future__ import annotations

import base64
import json
import sys
from itertools import count
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import mcp_types as types
from mcp_types import methods
from pydantic import BaseModel
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

MAX_DEPTH = 12
NUMBERS = count(1)
TASKS = {
    "tasks/cancel": types.CancelTaskResult,
    "tasks/get": types.GetTaskResult,
    "tasks/list": types.ListTasksResult,
}


def marker() -> str:
    """A text that stands nowhere else."""
    return f"Marker {next(NUMBERS)} stands here."


def variants(kind: Any, name: str, depth: int) -> list[Any]:  # noqa: C901, PLR0911 - a case for each kind of type
    """Examples of a type that together have every alternative of it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, TypeAliasType):
        return variants(kind.__value__, name, depth)
    if origin is Literal:
        return [arguments[0]]
    if origin in {Union, UnionType}:
        return [one for arm in arguments if arm is not NoneType for one in variants(arm, name, depth)]
    if origin is list:
        return [variants(arguments[0], name, depth)]
    if origin is dict:
        items = variants(arguments[1], name, depth)
        return [{f"Key {number} is free.": item for number, item in enumerate(items)}]
    if kind is Any or kind is object:
        return [{"Free key": [marker(), {"deep": marker()}]}, marker()]
    if hasattr(kind, "__metadata__"):
        return variants(arguments[0], name, depth)
    if kind is str or not isinstance(kind, type):
        text = marker()
        return [base64.b64encode(text.encode()).decode() if name in {"blob", "data"} else text]
    if is_typeddict(kind):
        return [{key: variants(value, key, depth)[0] for key, value in get_type_hints(kind).items()}]
    if issubclass(kind, BaseModel):
        return [] if depth > MAX_DEPTH else models(kind, depth)
    return [True if kind is bool else 1]


def models(kind: type[BaseModel], depth: int) -> list[dict[str, Any]]:
    """As many objects as the field with the most alternatives has."""
    fields = {}
    for name, field in kind.model_fields.items():
        alias = field.alias or name
        if found := variants(field.annotation, alias, depth + 1):
            fields[alias] = found
    number = max((len(found) for found in fields.values()), default=1)
    return [{alias: fresh(found, index) for alias, found in fields.items()} for index in range(number)]


def fresh(found: list[Any], index: int) -> Any:
    """The alternative of this index; a string is replaced by a new marker, so that none is repeated."""
    value = found[index % len(found)]
    return marker() if isinstance(value, str) and value.startswith("Marker ") and index >= len(found) else value


def message(sender: str, method: str, part: str, body: dict[str, Any]) -> dict[str, Any]:
    """An example: who sends it, the method of the request, and the message."""
    head = {"jsonrpc": "2.0"} | ({} if method.startswith("notifications/") else {"id": 1})
    content = body if part == "request" else {part: body}
    return {"from": sender, "method": method, "message": {**head, **content}}


def examples() -> list[dict[str, Any]]:
    """Of all requests, notifications, results and errors."""
    found = []
    server_requests = {method for method, _ in methods.SERVER_REQUESTS}
    for method, kind in {**methods.MONOLITH_REQUESTS, **methods.MONOLITH_NOTIFICATIONS}.items():
        notified = {name for name, _ in methods.SERVER_NOTIFICATIONS}
        sender = "server" if method in server_requests - {"ping"} or method in notified else "client"
        found += [message(sender, method, "request", body) for body in models(kind, 0)]
    for method, kind in {**methods.MONOLITH_RESULTS, **TASKS}.items():
        sender = "client" if method in server_requests - {"ping"} else "server"
        found += [message(sender, method, "result", body) for body in variants(kind, "", 0)]
    error = {"code": -32603, "message": marker(), "data": {"Free key": [marker()]}}
    found += [message("server", "tools/call", "error", error), message("client", "roots/list", "error", error)]
    status = types.TaskStatusNotification
    return found + [message("server", "notifications/tasks/status", "request", body) for body in models(status, 0)]


def main() -> None:
    """Write the file: an example on each line."""
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in examples())
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
