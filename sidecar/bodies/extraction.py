"""A request body in, segments out: every string that a model, or whoever stands behind it, may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sidecar.bodies.reading import JsonValue
from sidecar.types import Segment


@dataclass(frozen=True, slots=True)
class Unscannable:
    """A part that holds no text to scan: `media`, `token_ids`, or a `reference` to a stored object."""

    kind: Literal["media", "token_ids", "reference"]
    path: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one request body says.

    `joined` holds what stands apart in the body but is read together: the last turns, the parts of a
    message, the items of a list. It repeats text of `segments` and is scanned beside them.
    """

    segments: tuple[Segment, ...] = ()
    system_prompt: str | None = None
    model: str | None = None
    stream: bool = False
    unscannable: tuple[Unscannable, ...] = ()
    joined: tuple[Segment, ...] = ()


def extract(document: JsonValue, operation: str, dialect: str) -> Extraction:
    """Every text of `document`, the JSON body of `operation` (as `routes.classify` names it).

    Raises `BodyError` (malformed, oversize) for a document that is no object or holds too many texts.
    """
    raise NotImplementedError
