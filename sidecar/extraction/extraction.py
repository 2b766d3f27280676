"""Extracts segments from a request body: every string that a model, or a tool behind it, may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sidecar.errors import BodyError
from sidecar.extraction import joining, packing
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.walker import Leaf, Location, Walker
from sidecar.protocols import PROTOCOLS
from sidecar.types import Segment, Source

UnscannableKind = Literal["media", "token_ids", "reference"]


@dataclass(frozen=True, slots=True)
class Unscannable:
    """A part without scannable text: `media`, `token_ids`, or a `reference` to a stored object.

    `ids` are the token ids and `model` is the model they are meant for; `token_ids` decodes them. `data` is the file
    if it is a PDF or a picture, which `sidecar.attachments` reads.
    """

    kind: UnscannableKind
    path: str
    ids: tuple[JsonValue, ...] = ()
    model: str | None = None
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The texts of one request body.

    `joined` concatenates texts that are separate in the body but that a model reads in sequence: the last
    turns, the parts of a message, the items of a list. It repeats text of `segments` and is scanned in addition.
    The system prompt appears twice: as segments of `Source.APPLICATION`, and joined as `system_prompt`.
    """

    segments: tuple[Segment, ...] = ()
    system_prompt: str | None = None
    model: str | None = None
    stream: bool = False
    unscannable: tuple[Unscannable, ...] = ()
    joined: tuple[Segment, ...] = ()


NO_TEXTS = Extraction()


def extract(document: JsonValue, operation: str, dialect: str) -> Extraction:
    """Extract every text of `document`, the JSON body of `operation` (as named by `routes.classify`).

    Raises `BodyError` for a document that is not an object (malformed, 400) or holds too many texts
    (oversize, 413).
    """
    if not isinstance(document, dict):
        raise BodyError("malformed", "The body must be a JSON object.")
    # The items of an embedding request are independent texts; no model reads them in sequence.
    served = PROTOCOLS[dialect]
    joins = operation not in served.independent
    walk = Walker(served.shape(operation), fields=fields_of(dialect), join_lists=joins)
    walk.run(document, Location())
    model = document.get("model") if operation != "/messages/batches" else None  # each request of a batch has its own
    return Extraction(
        segments=tuple(packing.segments(walk.leaves)),
        system_prompt=_system_prompt(walk.leaves),
        model=model if isinstance(model, str) else None,
        stream=document.get("stream") is True or operation in served.streaming,
        unscannable=_unscannable(walk, model if isinstance(model, str) else None),
        joined=joining.join(walk.leaves),
    )


def _system_prompt(leaves: Sequence[Leaf]) -> str | None:
    texts = [leaf.text for leaf in leaves if leaf.prose and leaf.location.source is Source.APPLICATION]
    return "\n\n".join(texts) if texts else None


def _unscannable(walk: Walker, model: str | None) -> tuple[Unscannable, ...]:
    if not (walk.media or walk.token_ids or walk.references):
        return ()
    return (
        *(Unscannable("media", path, data=data) for path, data in walk.media),
        *(Unscannable("token_ids", path, tuple(ids), model) for path, ids in walk.token_ids),
        *(Unscannable("reference", path) for path in walk.references),
    )
