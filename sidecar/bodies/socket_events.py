"""An event that a client sends over a websocket, as the request body that it stands for.

`/realtime` (OpenAI, Realtime API, client events) sends settings of the session, items of the conversation and wishes
for a response apart; `/responses` in its websocket mode sends whole requests. Each is read as the same thing is read
over HTTP; what is not known is read as a whole, as the user's.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.bodies.extraction import Extraction, Unscannable, extract
from sidecar.bodies.reading import JsonValue
from sidecar.errors import BodyError

_OF_SOUND = frozenset({"input_audio_buffer.append", "input_video_buffer.append"})
_SOUND = ("audio", "video", "image")


def read(event: JsonValue) -> Extraction:
    """Every text of an event. Raises `BodyError` for one that is no object."""
    if not isinstance(event, dict):
        raise BodyError("malformed", "An event must be a JSON object.")
    kind = event.get("type")
    if kind in _OF_SOUND:
        return _sound({name: value for name, value in event.items() if name not in _SOUND})
    if isinstance(session := event.get("session"), dict):
        return _with(event, "session", extract(session, "/realtime/sessions", "openai"))
    if isinstance(event.get("item"), dict):
        item = extract({"input": [event["item"]]}, "/responses", "openai")
        return _with(event, "item", _moved(item, "input.0", "item"))
    if isinstance(response := event.get("response"), dict):
        return _with(event, "response", extract(response, "/responses", "openai"))
    return extract(_without(event, "type"), "/responses", "openai")


def _sound(rest: dict[str, JsonValue]) -> Extraction:
    """Sound as it comes in pieces: no layer reads it."""
    found = extract(_without(rest, "type"), "/responses", "openai")
    return replace(found, unscannable=(*found.unscannable, Unscannable("media", "audio")))


def _with(event: dict[str, JsonValue], name: str, inner: Extraction) -> Extraction:
    """What stands under a name, and whatever else the event holds."""
    rest = extract(_without(_without(event, name), "type"), "/responses", "openai")
    if name != "item":
        inner = _moved(inner, "", name)
    return replace(
        inner,
        segments=(*inner.segments, *rest.segments),
        joined=(*inner.joined, *rest.joined),
        unscannable=(*inner.unscannable, *rest.unscannable),
    )


def _without(event: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    return {key: value for key, value in event.items() if key != name}


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
