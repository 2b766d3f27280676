"""Walks a JSON body from the top and collects every string in it, with its source and its place.

Two regions. Where the API gives the names, a string is a leaf of its own and the table says whose it is.
Where the client makes the names (tool parameters, metadata, anything unknown), names are text too, and
the single words of one object or list are read together as one line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.errors import BodyError
from sidecar.extraction import embedded, framing, retrieved_passages
from sidecar.extraction.field_table import (
    DEFINITIONS,
    DOCUMENTS,
    ENUMS,
    FETCHES,
    FETCHING,
    FEW_NUMBERS,
    IDS,
    KNOWN,
    MEDIA,
    OPAQUE,
    PROSE,
    REFERENCE_LISTS,
    REFERENCE_OBJECTS,
    REFERENCES,
    RESULTS,
    SCHEMA_WORDS,
    SPEAKERS,
    SPOKEN,
    THIRD_PARTY,
    TOKEN_LISTS,
    Shape,
    is_free,
    looks_like_id,
)
from sidecar.extraction.json_body import JsonValue
from sidecar.types import Source

MOST_LEAVES = 10_000
DEEPEST_JSON = 3
SHORTEST_MEDIA = 512
"""Base64 below this length is scanned as it stands, too: it may be words without blanks."""
_WORD = re.compile(r"[A-Za-z0-9_.:/@+-]{1,40}")
_OPAQUE = re.compile(r"[A-Za-z0-9_+/=-]*")
_MEDIA_URLS = ("image_url.url", "audio_url.url", "video_url.url", "source.url")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}")


class Place(NamedTuple):
    """Where the walk is. `pattern` is empty in regions of the client's own names."""

    path: str = ""
    pattern: str = ""
    name: str = ""
    source: Source = Source.USER
    free: bool = False
    turn: str = ""
    nested: int = 0


class Leaf(NamedTuple):
    """A text and its place; `prose` if it may be one piece of a text that is read in a row.

    `rules_only`: its parts are leaves, too, and the model reads those.
    """

    text: str
    place: Place
    prose: bool
    rules_only: bool = False


class Walk:
    """One walk over one document: `leaves` in document order, and the paths that hold no text."""

    def __init__(self, shape: Shape, *, join_lists: bool = True) -> None:
        self.leaves: list[Leaf] = []
        self.media: list[str] = []
        self.token_ids: list[tuple[str, list[JsonValue]]] = []
        self.references: list[str] = []
        self._shape = shape
        self._join_lists = join_lists
        self._waiting: list[tuple[JsonValue, Place]] = []

    def run(self, document: JsonValue, start: Place) -> None:
        """Visit everything below `document`. Raises `BodyError` when it holds too many texts."""
        self._waiting.append((document, start))
        while self._waiting:
            node, at = self._waiting.pop()
            below = len(self._waiting)
            if isinstance(node, str):
                self._string(node, at)
            elif isinstance(node, dict):
                (self._free_object if at.free else self._object)(node, at)
            elif isinstance(node, list):
                (self._free_list if at.free else self._list)(node, at)
            self._waiting[below:] = self._waiting[below:][::-1]

    def _plain_turns(self, node: list[JsonValue], at: Place) -> int:
        """Read the first turns, as far as they are nothing but who says what, as nearly all are; returns how many.

        What it adds is what the walk adds for such turns: it is the walk without its steps.
        """
        pattern = f"{at.pattern}[].content"
        if f"{at.pattern}[]" not in self._shape.turns or at.free or pattern in self._shape.system:
            return 0
        for index, item in enumerate(node):
            if not isinstance(item, dict) or len(item) != 2:
                return index
            said, text = item.get("role"), item.get("content")
            speaker = SPEAKERS.get(said) if isinstance(said, str) else None
            if speaker is None or not isinstance(text, str) or "\\" in text or text[:5].lower() == "data:":
                return index
            turn = f"{at.path}.{index}"
            place = Place(f"{turn}.content", pattern, "content", speaker, free=False, turn=turn, nested=at.nested)
            self._add(text, place, prose=True)
        return len(node)

    def _object(self, node: dict[str, JsonValue], at: Place) -> None:
        at = self._spoken(node, at)
        for name, child in node.items():
            if name in FETCHING and not at.pattern:
                self.references.append(name)
            if name not in KNOWN:
                self._add(name, _step(at, name, free=True), prose=False)
            if _may_hold_text(name, child):
                place = self._below(at, name, child)
                # `{"type": "text", "data": ...}` is read as it stands, however much it looks like base64.
                plain = name in MEDIA and node.get("type") == "text"
                self._waiting.append((child, place._replace(name="text") if plain else place))

    def _spoken(self, node: dict[str, JsonValue], at: Place) -> Place:
        """The place with the source that an object's own `role` and `type` give it."""
        kind, said = node.get("type"), node.get("role")
        kind = kind if isinstance(kind, str) else ""
        source, turn = at.source, at.turn
        if at.pattern in self._shape.turns:
            turn = at.path or "content"
            source = SPEAKERS.get(said, Source.USER) if isinstance(said, str) else _unnamed(kind, at.source)
        if kind == "item_reference" or (source is Source.APPLICATION and kind.startswith(FETCHES)):
            self.references.append(at.path)
        if kind.endswith(("call_output", "tool_result")) or kind in DOCUMENTS or kind in THIRD_PARTY:
            source = Source.UNTRUSTED
        elif kind in DEFINITIONS:
            source = Source.APPLICATION
        return at if (source, turn) == (at.source, at.turn) else at._replace(source=source, turn=turn)

    def _below(self, at: Place, name: str, child: JsonValue) -> Place:
        """The place of a member of an object whose names the API gives."""
        place = _step(at, name, free=is_free(name, child))
        if place.pattern in self._shape.system:
            return place._replace(source=Source.APPLICATION)
        if at.source is Source.APPLICATION and not at.turn:
            return place  # names inside definitions are the application's own
        if name in RESULTS or name in DOCUMENTS or name in THIRD_PARTY:
            return place._replace(source=Source.UNTRUSTED)
        if name in DEFINITIONS and at.source is not Source.UNTRUSTED and isinstance(child, (dict, list)):
            return place._replace(source=Source.APPLICATION)
        return place

    def _list(self, node: list[JsonValue], at: Place) -> None:
        if at.name in TOKEN_LISTS and any(isinstance(item, (int, float)) for item in node):
            self.token_ids.append((at.path, node))
            self._bound()
        if self._join_lists and not at.turn and node and isinstance(node[0], str):
            at = at._replace(turn=at.path)
        pattern = f"{at.pattern}[]"
        read = self._plain_turns(node, at)
        for index, item in enumerate(node[read:] if read else node, read):
            if _may_hold_text(at.name, item):
                path = f"{at.path}.{index}"
                place = Place(path, pattern, at.name, at.source, at.free, at.turn, at.nested)
                self._waiting.append((item, place))

    def _free_object(self, node: dict[str, JsonValue], at: Place) -> None:
        words: list[str] = []
        for name, child in node.items():
            place = _step(at, name, free=True)
            if name not in SCHEMA_WORDS:
                self._word_or_leaf(name, place, words)
            if _may_hold_text(name, child):
                self._word_or_leaf(child, place, words)
        self._add(" ".join(words), at, prose=False)

    def _free_list(self, node: list[JsonValue], at: Place) -> None:
        if "." not in at.path and len(node) > FEW_NUMBERS and all(type(item) is int and item >= 0 for item in node):
            self.token_ids.append((at.path, node))
            self._bound()
            return
        words: list[str] = []
        for index, item in enumerate(node):
            if _may_hold_text("", item):
                self._word_or_leaf(item, at._replace(path=f"{at.path}.{index}"), words)
        self._add(" ".join(words), at, prose=False)

    def _word_or_leaf(self, value: JsonValue, at: Place, words: list[str]) -> None:
        if isinstance(value, str) and _WORD.fullmatch(value):
            words.append(value)
        else:
            self._waiting.append((value, at))

    def _string(self, text: str, at: Place) -> None:
        """A string that is no single word: what it refers to, what it holds, and itself."""
        if not at.free:
            self._note_reference(at)
            if _is_ignored(text, at):
                return
        if self._holds_other(text, at):
            return
        self._add(text, at, prose=not at.free and at.name in PROSE)
        inner = embedded.json_value(text) if at.nested < DEEPEST_JSON else None
        if inner is not None:
            self._waiting.append((inner, at._replace(free=True, nested=at.nested + 1)))

    def _note_reference(self, at: Place) -> None:
        owner = at.pattern.removesuffix(f".{at.name}").rpartition(".")[2]
        if (
            at.name in REFERENCES
            or (at.name == "id" and owner in REFERENCE_OBJECTS)
            or (at.name == "url" and owner.removesuffix("[]") in REFERENCE_LISTS)
        ):
            self.references.append(at.path)

    def _holds_other(self, text: str, at: Place) -> bool:
        """Text inside the string is taken out, media are noted. True if the string is nothing but an envelope.

        So it is only in the place of media: anywhere else a model reads it letter for letter, as words it may be.
        """
        opened = not at.free and (at.name in MEDIA or at.pattern.endswith(_MEDIA_URLS))
        found = embedded.data_url(text)
        if found is None and opened:
            found = embedded.base64_value(text)
            if found is None and text[:8].lower().startswith(("http://", "https://")):
                self.media.append(at.path)
        if found is None:
            return False
        if found.text is not None:
            self._add(found.text, at._replace(source=Source.UNTRUSTED), prose=False)
            return opened
        self.media.append(at.path)
        return opened and len(text) > SHORTEST_MEDIA

    def _add(self, text: str, at: Place, *, prose: bool) -> None:
        if text:
            self.leaves += leaves(text, at, prose=prose)
            if len(self.leaves) > MOST_LEAVES:
                self._bound()

    def _bound(self) -> None:
        if len(self.leaves) + len(self.token_ids) > MOST_LEAVES:
            raise BodyError("oversize", f"The body holds more than {MOST_LEAVES} texts.", status=413)


def leaves(text: str, at: Place, *, prose: bool) -> list[Leaf]:
    """A text as a leaf; a user's turn into which a framework has put something in its parts, too.

    So are the passages that an application has put into its system prompt from elsewhere.
    """
    if prose and at.source is Source.APPLICATION and at.path.partition(".")[0] not in DEFINITIONS:
        untrusted = at._replace(source=Source.UNTRUSTED)
        return [Leaf(text, at, prose), *(Leaf(part, untrusted, False) for part in retrieved_passages.passages(text))]
    found = framing.parts(text) if prose and at.source is Source.USER else []
    if not found:
        return [Leaf(text, at, prose)]
    return [Leaf(text, at, prose=False, rules_only=True), *(Leaf(part, at, not framed) for part, framed in found)]


def _step(at: Place, name: str, *, free: bool) -> Place:
    shown = name if _NAME.fullmatch(name) else "*"
    path = f"{at.path}.{shown}" if at.path else shown
    pattern = "" if free else f"{at.pattern}.{name}" if at.pattern else name
    return Place(path, pattern, name, at.source, at.free or free, at.turn, at.nested)


def _may_hold_text(name: str, value: JsonValue) -> bool:
    return isinstance(value, (dict, list)) or (isinstance(value, str) and value not in ENUMS.get(name, ()))


def _unnamed(kind: str, source: Source) -> Source:
    """The source of an item that names no role: made by the model, or whoever holds the list."""
    return Source.MODEL if kind in SPOKEN else source


def _is_ignored(text: str, at: Place) -> bool:
    if at.pattern not in IDS:
        return False
    return bool(_OPAQUE.fullmatch(text)) if at.name in OPAQUE else looks_like_id(text)
