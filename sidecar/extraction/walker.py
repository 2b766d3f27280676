"""Walks a JSON body in document order and collects every string with its source and location.

There are two kinds of regions. Where the API defines the names, each string is a leaf and the table gives its source.
Where the client chooses the names (tool parameters, metadata, anything unknown), names are text as well, and
the single words of an object or list are collected into one leaf.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.errors import BodyError
from sidecar.extraction import embedded, framing, retrieved_passages
from sidecar.extraction.dialect_fields import SHARED, DialectFields
from sidecar.extraction.field_table import (
    DEFINITIONS,
    DOCUMENTS,
    FETCH_TOOL_PREFIXES,
    MAX_PLAIN_NUMBERS,
    MODEL_ITEMS,
    REFERENCE_LISTS,
    REFERENCE_OBJECTS,
    ROLE_SOURCES,
    SCHEMA_WORDS,
    THIRD_PARTY,
    TOKEN_LISTS,
)
from sidecar.extraction.json_body import JsonValue
from sidecar.protocols import Shape
from sidecar.types import Source

MAX_LEAVES = 10_000
MAX_JSON_NESTING = 3
MIN_MEDIA_LENGTH = 512
"""Base64 below this length is also scanned undecoded: it may be words without spaces."""
_WORD = re.compile(r"[A-Za-z0-9_.:/@+-]{1,40}")
_MEDIA_URLS = ("image_url.url", "audio_url.url", "video_url.url", "source.url")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}")


class Location(NamedTuple):
    """A location in the document. `pattern` is empty in client-named regions; `nested` counts JSON in strings."""

    path: str = ""
    pattern: str = ""
    name: str = ""
    source: Source = Source.USER
    client_named: bool = False
    turn: str = ""
    nested: int = 0


class Leaf(NamedTuple):
    """A text and its location; `prose` if a model may read it in sequence with other leaves.

    `rules_only`: the model reads its parts instead, which are leaves as well.
    """

    text: str
    location: Location
    prose: bool
    rules_only: bool = False


class Walker:
    """One walk over one document: `leaves` in document order, and the paths that hold no text.

    Invariant: the top of `_stack` is the next node in document order, because the children that a step pushes are
    reversed as a group. So depth is bounded by memory, not by recursion.
    """

    def __init__(self, shape: Shape, *, fields: DialectFields = SHARED, join_lists: bool = True) -> None:
        self.leaves: list[Leaf] = []
        self.media: list[tuple[str, bytes]] = []
        self.token_ids: list[tuple[str, list[JsonValue]]] = []
        self.references: list[str] = []
        self._shape, self._fields = shape, fields
        self._join_lists = join_lists
        self._stack: list[tuple[JsonValue, Location]] = []

    def run(self, document: JsonValue, start: Location) -> None:
        """Visit everything below `document`. Raises `BodyError` when it holds too many texts."""
        self._stack.append((document, start))
        while self._stack:
            node, at = self._stack.pop()
            first_child = len(self._stack)
            if isinstance(node, str):
                self._string(node, at)
            elif isinstance(node, dict):
                (self._client_named_object if at.client_named else self._object)(node, at)
            elif isinstance(node, list):
                (self._client_named_list if at.client_named else self._list)(node, at)
            self._stack[first_child:] = self._stack[first_child:][::-1]

    def _plain_turns(self, node: list[JsonValue], at: Location) -> int:
        """Fast path for leading `{role, content: str}` turns; returns how many were consumed.

        Adds exactly the leaves that the regular walk would add for them.
        """
        pattern = f"{at.pattern}[].content"
        if f"{at.pattern}[]" not in self._shape.turns or at.client_named or pattern in self._shape.system:
            return 0
        for index, item in enumerate(node):
            if not isinstance(item, dict) or len(item) != 2:
                return index
            role, text = item.get("role"), item.get("content")
            source = self._fields.roles.get(role) if isinstance(role, str) else None
            if source is None or not isinstance(text, str) or "\\" in text or text[:5].lower() == "data:":
                return index
            turn = f"{at.path}.{index}"
            place = Location(
                f"{turn}.content", pattern, "content", source, client_named=False, turn=turn, nested=at.nested
            )
            self._add(text, place, prose=True)
        return len(node)

    def _object(self, node: dict[str, JsonValue], at: Location) -> None:
        at = self.with_source(node, at)
        for name, child in node.items():
            if name not in self._fields.known:
                self._add(name, step(at, name, client_named=True), prose=False)
            holds_text = self.may_hold_text(name, child)
            if not holds_text and name not in self._fields.fetching_names:
                continue
            place = self.child_location(at, name, child)
            if place.pattern in self._fields.fetches:
                self.references.append(place.path)
            if holds_text:
                # `{"type": "text", "data": ...}` is plain text, even if it looks like base64.
                plain = name in self._fields.media and node.get("type") == "text"
                self._stack.append((child, place._replace(name="text") if plain else place))

    def with_source(self, node: dict[str, JsonValue], at: Location) -> Location:
        """The location with the source given by the object's own `role` and `type`."""
        kind, role = node.get("type"), node.get("role")
        kind = kind if isinstance(kind, str) else ""
        source, turn = at.source, at.turn
        if at.pattern in self._shape.turns:
            turn = at.path or "content"
            source = self._turn_source(role, kind, at.source)
        if kind == "item_reference" or (source is Source.APPLICATION and kind.startswith(FETCH_TOOL_PREFIXES)):
            self.references.append(at.path)
        if kind.endswith(("call_output", "tool_result")) or kind in DOCUMENTS or kind in THIRD_PARTY:
            source = Source.UNTRUSTED
        elif kind in DEFINITIONS:
            source = Source.APPLICATION
        return at if (source, turn) == (at.source, at.turn) else at._replace(source=source, turn=turn)

    def _turn_source(self, role: JsonValue, kind: str, source: Source) -> Source:
        """By its role; without one, the model for types that it alone generates, else that of the enclosing list."""
        if isinstance(role, str):
            return self._fields.roles.get(role, Source.USER)
        return Source.MODEL if kind in MODEL_ITEMS and self._fields.roles is ROLE_SOURCES else source

    def child_location(self, at: Location, name: str, child: JsonValue) -> Location:
        """The location of a member of an object whose names the API defines."""
        place = step(at, name, client_named=self._fields.is_client_named(name, child))
        if place.pattern in self._shape.system:
            return place._replace(source=Source.APPLICATION)
        if at.source is Source.APPLICATION and not at.turn:
            return place  # names inside definitions are the application's own
        if name in self._fields.untrusted:
            return place._replace(source=Source.UNTRUSTED)
        if name in self._fields.definitions and at.source is not Source.UNTRUSTED and isinstance(child, (dict, list)):
            return place._replace(source=Source.APPLICATION)
        return place

    def _list(self, node: list[JsonValue], at: Location) -> None:
        if at.name in TOKEN_LISTS and any(isinstance(item, (int, float)) for item in node):
            self.token_ids.append((at.path, node))
            self._bound()
        if self._join_lists and not at.turn and node and isinstance(node[0], str):
            at = at._replace(turn=at.path)
        pattern = f"{at.pattern}[]"
        consumed = self._plain_turns(node, at)
        for index, item in enumerate(node[consumed:] if consumed else node, consumed):
            if self.may_hold_text(at.name, item):
                path = f"{at.path}.{index}"
                place = Location(path, pattern, at.name, at.source, at.client_named, at.turn, at.nested)
                self._stack.append((item, place))

    def _client_named_object(self, node: dict[str, JsonValue], at: Location) -> None:
        words: list[str] = []
        for name, child in node.items():
            place = step(at, name, client_named=True)
            if name not in SCHEMA_WORDS:
                self._word_or_leaf(name, place, words)
            if self.may_hold_text(name, child):
                self._word_or_leaf(child, place, words)
        self._add(" ".join(words), at, prose=False)

    def _client_named_list(self, node: list[JsonValue], at: Location) -> None:
        long = "." not in at.path and len(node) > MAX_PLAIN_NUMBERS
        if long and all(type(item) is int and item >= 0 for item in node):
            self.token_ids.append((at.path, node))
            self._bound()
            return
        words: list[str] = []
        for index, item in enumerate(node):
            if self.may_hold_text("", item):
                self._word_or_leaf(item, at._replace(path=f"{at.path}.{index}"), words)
        self._add(" ".join(words), at, prose=False)

    def _word_or_leaf(self, value: JsonValue, at: Location, words: list[str]) -> None:
        if isinstance(value, str) and _WORD.fullmatch(value):
            words.append(value)
        else:
            self._stack.append((value, at))

    def _string(self, text: str, at: Location) -> None:
        """Visit a string: note a reference, add embedded content, and add the string itself."""
        if not at.client_named:
            self._note_reference(at)
            if self._fields.is_id(at.pattern, text):
                return
        if self._add_embedded(text, at):
            return
        self._add(text, at, prose=self._is_prose(at))
        inner = embedded.json_value(text) if at.nested < MAX_JSON_NESTING else None
        if inner is not None:
            self._stack.append((inner, at._replace(client_named=True, nested=at.nested + 1)))

    def may_hold_text(self, name: str, value: JsonValue) -> bool:
        """Whether it is a container, or a string that is no enum value of its field."""
        is_word = isinstance(value, str) and value in self._fields.enums.get(name, ())
        return isinstance(value, (dict, list, str)) and not is_word

    def _is_prose(self, at: Location) -> bool:
        """Whether a model may read the text in sequence with others."""
        if at.client_named:
            return at.source is Source.UNTRUSTED and at.path.endswith(self._fields.result_texts)
        return at.name in self._fields.prose

    def _note_reference(self, at: Location) -> None:
        owner = at.pattern.removesuffix(f".{at.name}").rpartition(".")[2]
        if (
            at.name in self._fields.references
            or (at.name == "id" and owner in REFERENCE_OBJECTS)
            or (at.name == "url" and owner.removesuffix("[]") in REFERENCE_LISTS)
        ):
            self.references.append(at.path)

    def _add_lenient_media(self, text: str, at: Location, *, in_media_field: bool) -> None:
        """Note what only some readers take for media; the string is scanned as well."""
        if in_media_field or text[:5].lower() == "data:":
            content = embedded.lenient_media(text)
            if content is not None:
                self.media.append((at.path, content.file))

    def _add_embedded(self, text: str, at: Location) -> bool:
        """Add text embedded in the string and note media. True if the string itself need not be scanned.

        That holds only in media fields: in any other field a model reads the encoded string literally.
        """
        in_media_field = not at.client_named and (at.name in self._fields.media or at.pattern.endswith(_MEDIA_URLS))
        content = embedded.data_url(text)
        if content is None and in_media_field:
            content = embedded.base64_value(text)
            if content is None and text[:8].lower().startswith(("http://", "https://")):
                self.media.append((at.path, b""))
        if content is None:
            self._add_lenient_media(text, at, in_media_field=in_media_field)
            return False
        if content.text is not None:
            self._add(content.text, at._replace(source=Source.UNTRUSTED), prose=False)
            if content.file:
                self.media.append((at.path, content.file))
            return in_media_field
        self._add(content.metadata, at._replace(source=Source.UNTRUSTED), prose=False)
        self.media.append((at.path, content.file))
        return in_media_field and len(text) > MIN_MEDIA_LENGTH

    def _add(self, text: str, at: Location, *, prose: bool) -> None:
        if text:
            self.leaves += leaves(text, at, prose=prose)
            if len(self.leaves) > MAX_LEAVES:
                self._bound()

    def _bound(self) -> None:
        if len(self.leaves) + len(self.token_ids) > MAX_LEAVES:
            raise BodyError("oversize", f"The body holds more than {MAX_LEAVES} texts.", status=413)


def leaves(text: str, at: Location, *, prose: bool) -> list[Leaf]:
    """The leaf of a text, and in addition the parts of a user turn with content inserted by a framework.

    Passages retrieved by an application into its system prompt become additional, untrusted leaves.
    """
    if prose and at.source is Source.APPLICATION and at.path.partition(".")[0] not in DEFINITIONS:
        untrusted = at._replace(source=Source.UNTRUSTED)
        return [Leaf(text, at, prose), *(Leaf(part, untrusted, False) for part in retrieved_passages.passages(text))]
    frame_parts = framing.parts(text) if prose and at.source is Source.USER else []
    if not frame_parts:
        return [Leaf(text, at, prose)]
    return [Leaf(text, at, prose=False, rules_only=True), *(Leaf(part, at, not framed) for part, framed in frame_parts)]


def shown_name(name: str) -> str:
    """The name in a path; a star for one that could hold a sentence."""
    return name if _NAME.fullmatch(name) else "*"


def step(at: Location, name: str, *, client_named: bool) -> Location:
    """The location of a member; `pattern` is empty where the client chooses the name."""
    path = f"{at.path}.{shown_name(name)}" if at.path else shown_name(name)
    pattern = "" if client_named else f"{at.pattern}.{name}" if at.pattern else name
    return Location(path, pattern, name, at.source, at.client_named or client_named, at.turn, at.nested)
