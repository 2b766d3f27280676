"""Extracts segments from a message of the Model Context Protocol: every string of it, each with its source.

The source follows from who sends the message and where the string stands:

- from a server, what defines its tools, prompts and itself is the application's, as in a chat; all else is untrusted;
- from a client, calls and generated messages are the model's, capabilities are the application's, all else the user's.

Paths are relative to `params`, `result` or `error`: `content.0.text`, `tools.3.description`, `arguments.query`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sidecar.errors import BodyError
from sidecar.extraction import embedded, joining, packing
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.extraction.field_table import holds_words, looks_like_id
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.mcp_fields import ANY_DEFINITION, DEFINITIONS, ENUMS, FREE_FORM, IDS, MAPS, MEDIA, NAMES, TEXTS
from sidecar.extraction.walker import MAX_LEAVES, MIN_MEDIA_LENGTH, Leaf, Location, Walker, leaves
from sidecar.protocols import Shape
from sidecar.types import Source
from sidecar.util import json

Message = dict[str, Any]
PARTS = ("params", "result", "error")
MIN_WORDS = 4
"""From so many on, an id is scanned, whatever stands between them."""
_WORD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2,}(?![A-Za-z0-9])")
_STRUCTURED = "structuredContent"
_CLIENT_SOURCES = {
    "initialize": Source.APPLICATION,
    "resources/read": Source.MODEL,
    "resources/subscribe": Source.MODEL,
    "resources/unsubscribe": Source.MODEL,
    "roots/list": Source.APPLICATION,
    "sampling/createMessage": Source.MODEL,
    "tools/call": Source.MODEL,
}
"""The source of what a client sends, by method."""
_FREE_SHAPE = Shape(turns=frozenset())


def extract(message: Mapping[str, JsonValue], *, from_server: bool, method: str | None) -> Extraction:
    """Extract every text of a message. `method`: of the request, for a response that of the request it answers.

    Raises `BodyError` (oversize, 413) if it holds too many texts.
    """
    reader = _Reader(from_server=from_server, method=method)
    source = Source.UNTRUSTED if from_server else _CLIENT_SOURCES.get(method or "", Source.USER)
    for name, value in message.items():
        part = name in PARTS and isinstance(value, dict)
        reader.read(value, Location("" if part else _shown(name), "", name, source, turn=name))
        if name not in NAMES:
            reader.add(name, Location(_shown(name), source=source), prose=False)
    return Extraction(
        segments=tuple(packing.segments(reader.leaves)),
        joined=joining.join(reader.leaves),
        unscannable=tuple(Unscannable("media", path) for path in reader.media),
    )


class _Reader:
    """One walk over one message: `leaves` in document order, and the paths that hold media."""

    def __init__(self, *, from_server: bool, method: str | None) -> None:
        self.leaves: list[Leaf] = []
        self.media: list[str] = []
        self._from_server = from_server
        self._definitions = ANY_DEFINITION if method is None else DEFINITIONS.get(method, frozenset())

    def read(self, value: JsonValue, at: Location) -> None:
        """Read everything below `value`. Recursion is bounded by the depth that the parser allows."""
        if isinstance(value, str):
            self._string(value, at)
        elif isinstance(value, dict):
            self._object(value, at)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                place = at._replace(path=f"{at.path}.{index}" if at.path else str(index))
                self.read(item, place._replace(turn=place.path) if at.name == "messages" else place)

    def add(self, text: str, at: Location, *, prose: bool) -> None:
        """Add a text."""
        if text:
            self.leaves += leaves(text, at, prose=prose)
        if len(self.leaves) > MAX_LEAVES:
            raise BodyError("oversize", f"The message holds more than {MAX_LEAVES} texts.", status=413)

    def _object(self, node: dict[str, JsonValue], at: Location) -> None:
        if not self._from_server and node.get("role") == "assistant":
            at = at._replace(source=Source.MODEL)
        for name, child in node.items():
            place = self._child(at, name)
            if name not in NAMES:
                self.add(name, place, prose=False)
            if name == _STRUCTURED and _is_repeated(child, node.get("content")):
                continue
            if at.name not in MAPS and _is_free_form(name, child):
                self._free_form(child, place)
            else:
                self.read(child, place)

    def _child(self, at: Location, name: str) -> Location:
        path = f"{at.path}.{_shown(name)}" if at.path else _shown(name)
        at_root = not at.path or at.path.endswith(".params")
        defines = self._from_server and at_root and name in self._definitions
        source = Source.APPLICATION if defines else at.source
        return at._replace(path=path, name=name, source=source, turn="" if defines else at.turn)

    def _free_form(self, value: JsonValue, at: Location) -> None:
        """Read what has names of its own, as in the arguments and schemas of a chat's tools."""
        walker = Walker(_FREE_SHAPE, join_lists=False)
        walker.run(value, at._replace(client_named=True))
        self.leaves += walker.leaves
        self.media += [path for path, _ in walker.media]
        self.add("", at, prose=False)

    def _string(self, text: str, at: Location) -> None:
        if text in ENUMS.get(at.name, ()):
            return
        if at.name in IDS and looks_like_id(text):
            if holds_words(text) or len(_WORD.findall(text)) >= MIN_WORDS:
                self.add(text, at, prose=False)
            return
        if self._add_embedded(text, at):
            return
        self.add(text, at, prose=at.name in TEXTS and at.source is not Source.APPLICATION)
        if (inner := embedded.json_value(text)) is not None:
            self._free_form(inner, at._replace(nested=1))

    def _add_embedded(self, text: str, at: Location) -> bool:
        """Add text that is embedded in the string, and note media. True if the string itself need not be scanned."""
        is_media_field = at.name in MEDIA
        content = embedded.data_url(text) or (embedded.base64_value(text) if is_media_field else None)
        if content is None:
            return False
        inner = content.metadata if content.text is None else content.text
        self.add(inner, at._replace(source=Source.UNTRUSTED) if self._from_server else at, prose=False)
        if content.text is None or content.file:
            self.media.append(at.path)
        return is_media_field and (content.text is not None or len(text) > MIN_MEDIA_LENGTH)


def _is_free_form(name: str, value: JsonValue) -> bool:
    """Whether the names inside are not the protocol's: those of data, of schemas, of the fields of a form."""
    if not isinstance(value, (dict, list)):
        return False
    if name == "content":
        return isinstance(value, dict) and "type" not in value
    return name in FREE_FORM or name == "data" or name not in NAMES


def _is_repeated(structured: JsonValue, content: JsonValue) -> bool:
    """Whether the only content block repeats the structured content as JSON, as servers do for older clients."""
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return False
    text = content[0].get("text")
    if not isinstance(text, str) or len(text) > embedded.MAX_JSON_LENGTH or text.lstrip()[:1] != "{":
        return False
    try:
        return bool(json.loads(text) == structured)
    except json.DecodeError:
        return False


def _shown(name: str) -> str:
    """A name for a path: those that are no plain words may hold anything."""
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() and len(name) <= 64 else "*"
