"""The strings of a body that can be replaced without changing its meaning: all values except ids and media."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sidecar.extraction import embedded
from sidecar.extraction.dialect_fields import SHARED, DialectFields
from sidecar.extraction.json_body import JsonValue


@dataclass(slots=True)
class Slot:
    """A string and its location: `owner[key]`."""

    owner: Any
    key: str | int
    text: str

    def put(self, text: str) -> None:
        """Replace it in place."""
        self.text = self.owner[self.key] = text


class _Location(NamedTuple):
    pattern: str = ""
    client_named: bool = False


def slots(document: JsonValue, fields: DialectFields = SHARED) -> list[Slot]:
    """The replaceable string values in the body of an API, in document order, without member names."""
    collected: list[Slot] = []
    stack: list[tuple[JsonValue, Any, str | int, _Location]] = [(document, None, "", _Location())]
    while stack:
        node, owner, key, at = stack.pop()
        if isinstance(node, str):
            if owner is not None and not _is_fixed(node, at, fields):
                collected.append(Slot(owner, key, node))
        elif isinstance(node, dict):
            members = [(child, node, name, _child_location(at, name, child, fields)) for name, child in node.items()]
            stack += reversed(members)
        elif isinstance(node, list):
            item_place = at._replace(pattern=f"{at.pattern}[]")
            stack += reversed([(child, node, number, item_place) for number, child in enumerate(node)])
    return collected


def _child_location(at: _Location, name: str, child: JsonValue, fields: DialectFields) -> _Location:
    """The location of a member; below a client-chosen name every string belongs to the client."""
    client_named = at.client_named or fields.is_client_named(name, child)
    return _Location(f"{at.pattern}.{name}" if at.pattern else name, client_named)


def _is_fixed(text: str, at: _Location, fields: DialectFields) -> bool:
    """Whether a string must not change: ids assigned by others, and media or text encoded like media."""
    if embedded.data_url(text) is not None:
        return True
    if at.client_named:
        return False
    name = at.pattern.removesuffix("[]").rpartition(".")[2]
    return fields.is_id(at.pattern, text) or (name in fields.media and embedded.base64_value(text) is not None)
