"""The strings of a body that may be replaced without changing what it asks for: all values but ids and media."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from sidecar.extraction import embedded
from sidecar.extraction.field_table import IDS, MEDIA, OPAQUE, is_free, looks_like_id
from sidecar.extraction.json_body import JsonValue

_OPAQUE = re.compile(r"[A-Za-z0-9_+/=-]*")


@dataclass(slots=True)
class Slot:
    """A string and where it stands: `owner[key]`."""

    owner: Any
    key: str | int
    text: str

    def put(self, text: str) -> None:
        """Replace it where it stands."""
        self.text = self.owner[self.key] = text


class _Place(NamedTuple):
    pattern: str = ""
    free: bool = False


def slots(document: JsonValue) -> list[Slot]:
    """The strings below `document`, in document order; names are none."""
    found: list[Slot] = []
    waiting: list[tuple[JsonValue, Any, str | int, _Place]] = [(document, None, "", _Place())]
    while waiting:
        node, owner, key, at = waiting.pop()
        if isinstance(node, str):
            if owner is not None and not _is_fixed(node, at):
                found.append(Slot(owner, key, node))
        elif isinstance(node, dict):
            waiting += reversed([(child, node, name, _below(at, name, child)) for name, child in node.items()])
        elif isinstance(node, list):
            inside = at._replace(pattern=f"{at.pattern}[]")
            waiting += reversed([(child, node, number, inside) for number, child in enumerate(node)])
    return found


def _below(at: _Place, name: str, child: JsonValue) -> _Place:
    """Below a name that the client made every string is the client's."""
    return _Place(f"{at.pattern}.{name}" if at.pattern else name, at.free or is_free(name, child))


def _is_fixed(text: str, at: _Place) -> bool:
    """Ids, which others have given; media, which would be damaged; text in such an envelope, too."""
    if embedded.data_url(text) is not None:
        return True
    if at.free:
        return False
    name = at.pattern.removesuffix("[]").rpartition(".")[2]
    if at.pattern in IDS:
        return bool(_OPAQUE.fullmatch(text)) if name in OPAQUE else looks_like_id(text)
    return name in MEDIA and embedded.base64_value(text) is not None
