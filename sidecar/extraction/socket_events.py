"""Extracts segments from a client's websocket event by reading its parts as HTTP request bodies.

`/realtime` (OpenAI, Realtime API, client events) sends session settings, conversation items and response requests
separately; `/responses` in its websocket mode sends whole requests. Each part is read like the corresponding HTTP
body, and everything else as the user's text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue

_PARTS = {"session": "/realtime/sessions", "item": "/responses", "response": "/responses"}
"""The objects that an event may hold, and the operation whose body each is read as."""
_ITEM = "input.0"
_KIND = re.compile(r"[a-z]+(?:[._][a-z]+){0,5}")


def extract_event(event: JsonValue, *, depth: int) -> Extraction:
    """Extract every text of an event. Raises `BodyError` if it is not an object, or has ambiguous names."""
    if not isinstance(event, dict):
        raise BodyError("malformed", "An event must be a JSON object.")
    parts = [(name, part) for name in _PARTS if isinstance(part := event.get(name), dict)]
    remainder = dict(event)
    for name, _ in parts:
        del remainder[name]
    if isinstance(kind := remainder.get("type"), str) and _KIND.fullmatch(kind):
        del remainder["type"]
    extraction = extract(remainder, "/responses", "openai")
    for name, part in parts:
        extraction = _merge(extraction, _part(name, part, depth))
    return extraction


def _part(name: str, part: dict[str, JsonValue], depth: int) -> Extraction:
    json_body.check(part, depth=depth)  # within the event some of these names count as client-chosen
    if name == "item":
        return _rebase(extract({"input": [part]}, _PARTS[name], "openai"), _ITEM, name)
    return _rebase(extract(part, _PARTS[name], "openai"), "", name)


def _merge(first: Extraction, second: Extraction) -> Extraction:
    return replace(
        first,
        segments=(*first.segments, *second.segments),
        joined=(*first.joined, *second.joined),
        unscannable=(*first.unscannable, *second.unscannable),
        system_prompt="\n\n".join(filter(None, (first.system_prompt, second.system_prompt))) or None,
        model=first.model or second.model,
    )


def _rebase(extraction: Extraction, old_prefix: str, new_prefix: str) -> Extraction:
    """Convert paths to those in the event by replacing the prefix."""

    def new_path(path: str) -> str:
        suffix = path.removeprefix(old_prefix).lstrip(".") if path.startswith(old_prefix) else path
        return f"{new_prefix}.{suffix}" if suffix else new_prefix

    return replace(
        extraction,
        segments=tuple(
            replace(
                segment,
                path=new_path(segment.path),
                pieces=tuple((offset, new_path(path)) for offset, path in segment.pieces),
                repeated=tuple(map(new_path, segment.repeated)),
            )
            for segment in extraction.segments
        ),
        joined=tuple(replace(segment, path=new_path(segment.path)) for segment in extraction.joined),
        unscannable=tuple(replace(segment, path=new_path(segment.path)) for segment in extraction.unscannable),
    )
