"""The strings of a body that can be replaced without changing its meaning: all values except ids and media."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from sidecar.extraction import embedded
from sidecar.extraction.field_table import IDS, MEDIA, OPAQUE, is_client_named, looks_like_id
from sidecar.extraction.json_body import JsonValue

_OPAQUE = re.compile(r"[A-Za-z0-9_+/=-]*")


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


def slots(document: JsonValue) -> list[Slot]:
    """The replaceable string values in `document`, in document order, without member names."""
    collected: list[Slot] = []
    stack: list[tuple[JsonValue, Any, str | int, _Location]] = [(document, None, "", _Location())]
    while stack:
        node, owner, key, at = stack.pop()
        if isinstance(node, str):
            if owner is not None and not _is_fixed(node, at):
                collected.append(Slot(owner, key, node))
        elif isinstance(node, dict):
            stack += reversed([(child, node, name, _child_location(at, name, child)) for name, child in node.items()])
        elif isinstance(node, list):
            item_place = at._replace(pattern=f"{at.pattern}[]")
            stack += reversed([(child, node, number, item_place) for number, child in enumerate(node)])
    return collected


def _child_location(at: _Location, name: str, child: JsonValue) -> _Location:
    """The location of a member; below a client-chosen name every string belongs to the client."""
    return _Location(f"{at.pattern}.{name}" if at.pattern else name, at.client_named or is_client_named(name, child))


def _is_fixed(text: str, at: _Location) -> bool:
    """Whether a string must not change: ids assigned by others, and media or text encoded like media."""
    if embedded.data_url(text) is not None:
        return True
    if at.client_named:
        return False
    name = at.pattern.removesuffix("[]").rpartition(".")[2]
    if at.pattern in IDS:
        return bool(_OPAQUE.fullmatch(text)) if name in OPAQUE else looks_like_id(text)
    return name in MEDIA and embedded.base64_value(text) is not None
