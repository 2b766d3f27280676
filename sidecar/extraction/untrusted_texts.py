"""Finds the texts of third parties in a body that can be marked as data in place, and counts those that cannot.

The walker says whose a string is; a table here says which fields hold text for the model. Everything else is left
alone: ids, names, media, files in base64 or as `data:` URLs, signatures, ciphertext, and documents whose citations the
model gives by offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sidecar.extraction import embedded
from sidecar.extraction.dialect_fields import DialectFields
from sidecar.extraction.field_table import holds_words, looks_like_id
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.strings import Slot
from sidecar.extraction.walker import Location, Walker, step
from sidecar.protocols import Shape
from sidecar.types import Source

TEXT_FIELDS = frozenset({"content", "text", "output", "logs", "stdout", "stderr", "documents"})
"""Fields of results and documents that hold text for the model."""
RESULT_OBJECTS = frozenset({"response", "data", "tool_output"})
"""Objects with a tool's own names, whose strings the model reads."""
QUOTATIONS = frozenset({"annotations", "citations"})
"""Lists in which a provider repeats to itself where an earlier answer came from."""


@dataclass(slots=True)
class UntrustedTexts:
    """`texts` are read as a whole, `values` stand in the object of a result; `unmarkable` counts the other texts."""

    texts: list[Slot] = field(default_factory=list)
    values: list[Slot] = field(default_factory=list)
    unmarkable: int = 0


class _Node(NamedTuple):
    value: JsonValue
    owner: Any
    key: str | int
    at: Location
    in_result: bool = False


def is_word(text: str) -> bool:
    """Whether a string is an id, a number or another single word, too short to hold an instruction."""
    return looks_like_id(text) and not holds_words(text)


def find(document: JsonValue, shape: Shape, fields: DialectFields) -> UntrustedTexts:
    """The texts of `Source.UNTRUSTED`, in document order."""
    walker, collected = Walker(shape, fields=fields), UntrustedTexts()
    stack = [_Node(document, None, "", Location())]
    while stack:
        node = stack.pop()
        if isinstance(node.value, str):
            _add(collected, node, fields)
        elif isinstance(node.value, list):
            at = node.at if node.at.client_named else node.at._replace(pattern=f"{node.at.pattern}[]")
            items = enumerate(node.value)
            stack += reversed([_Node(item, node.value, key, at, node.in_result) for key, item in items])
        elif isinstance(node.value, dict):
            stack += reversed(_members(node.value, node, walker, collected))
    return collected


def _members(value: dict[str, JsonValue], node: _Node, walker: Walker, collected: UntrustedTexts) -> list[_Node]:
    """The members of an object that may hold text."""
    at = node.at if node.at.client_named else walker.with_source(value, node.at)
    if at.source is Source.UNTRUSTED and _is_cited(value):
        collected.unmarkable += 1
        return []
    members = []
    for name, child in value.items():
        collected.unmarkable += node.in_result and not is_word(name)
        if not walker.may_hold_text(name, child):
            continue
        place = step(at, name, client_named=True) if at.client_named else walker.child_location(at, name, child)
        if name == "data" and value.get("type") == "text":
            place = place._replace(name="text")  # the text of a document, even if it looks like base64
        is_untrusted = place.source is Source.UNTRUSTED
        in_result = node.in_result or (is_untrusted and place.client_named and name in RESULT_OBJECTS)
        if is_untrusted and name in QUOTATIONS:
            collected.unmarkable += bool(child)
        else:
            members.append(_Node(child, value, name, place, in_result))
    return members


def _is_cited(value: dict[str, JsonValue]) -> bool:
    citations = value.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _add(collected: UntrustedTexts, node: _Node, fields: DialectFields) -> None:
    """Sort a string in: a text to mark, one that cannot be marked, or nothing that a model reads as text."""
    at, text = node.at, node.value
    if at.source is not Source.UNTRUSTED or not isinstance(text, str) or not text.strip() or node.owner is None:
        return
    if fields.is_id(at.pattern, text):
        return
    is_media_field = not at.client_named and at.name in fields.media
    content = embedded.data_url(text) or (embedded.base64_value(text) if is_media_field or node.in_result else None)
    if content is not None:
        collected.unmarkable += content.text is not None or embedded.is_pdf(content.file)
    elif node.in_result:
        collected.values.append(Slot(node.owner, node.key, text))
    elif not at.client_named and at.name in TEXT_FIELDS:
        collected.texts.append(Slot(node.owner, node.key, text))
    else:
        collected.unmarkable += not is_word(text) and not (is_media_field and " " not in text)
