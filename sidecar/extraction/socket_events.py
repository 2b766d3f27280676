"""An event that a client sends over a websocket, as the request bodies that it stands for.

`/realtime` (OpenAI, Realtime API, client events) sends settings of the session, items of the conversation and wishes
for a response apart; `/responses` in its websocket mode sends whole requests. Each part is read as the same thing is
read over HTTP, and everything else as the user's.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue

_PARTS = {"session": "/realtime/sessions", "item": "/responses", "response": "/responses"}
"""The objects that an event may hold, and the operation as whose body each is read."""
_ITEM = "input.0"
_KIND = re.compile(r"[a-z]+(?:[._][a-z]+){0,5}")


def read(event: JsonValue, *, depth: int) -> Extraction:
    """Every text of an event. Raises `BodyError` for one that is no object, or has names with two readings."""
    if not isinstance(event, dict):
        raise BodyError("malformed", "An event must be a JSON object.")
    parts = [(name, part) for name in _PARTS if isinstance(part := event.get(name), dict)]
    rest = dict(event)
    for name, _ in parts:
        del rest[name]
    if isinstance(kind := rest.get("type"), str) and _KIND.fullmatch(kind):
        del rest["type"]
    found = extract(rest, "/responses", "openai")
    for name, part in parts:
        found = _both(found, _part(name, part, depth))
    return found


def _part(name: str, part: dict[str, JsonValue], depth: int) -> Extraction:
    json_body.check(part, depth=depth)  # inside the event some of these names are the client's own
    if name == "item":
        return _moved(extract({"input": [part]}, _PARTS[name], "openai"), _ITEM, name)
    return _moved(extract(part, _PARTS[name], "openai"), "", name)


def _both(one: Extraction, other: Extraction) -> Extraction:
    return replace(
        one,
        segments=(*one.segments, *other.segments),
        joined=(*one.joined, *other.joined),
        unscannable=(*one.unscannable, *other.unscannable),
        system_prompt="\n\n".join(filter(None, (one.system_prompt, other.system_prompt))) or None,
        model=one.model or other.model,
    )


def _moved(found: Extraction, before: str, after: str) -> Extraction:
    """The same with paths as they are in the event."""

    def moved(path: str) -> str:
        rest = path.removeprefix(before).lstrip(".") if path.startswith(before) else path
        return f"{after}.{rest}" if rest else after

    return replace(
        found,
        segments=tuple(
            replace(one, path=moved(one.path), pieces=tuple((at, moved(path)) for at, path in one.pieces))
            for one in found.segments
        ),
        joined=tuple(replace(one, path=moved(one.path)) for one in found.joined),
        unscannable=tuple(replace(one, path=moved(one.path)) for one in found.unscannable),
    )
