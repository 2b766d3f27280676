"""Which texts of a request are scanned: those of sources that some layer reads, and their joined readings.

Every entry point that takes more than a single prompt chooses here, so that a request is read the same way wherever it
comes in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.config import Settings
from sidecar.extraction.extraction import Extraction
from sidecar.types import LayerName, ScanRequest, Segment, Source
from sidecar.util import by_model


@dataclass(frozen=True, slots=True)
class Selection:
    """What is scanned, and the sources whose texts no layer reads (`x-sidecar-unscanned` names them)."""

    request: ScanRequest
    unread: tuple[Source, ...] = ()


def select(settings: Settings, found: Extraction, more: Iterable[Segment] = ()) -> Selection:
    """The texts of an extraction that are to be scanned, and `more` said beside them."""
    read = sources_read(settings, found.model)
    said = (*found.segments, *found.joined, *more)
    left = {segment.source for segment in said} - read
    segments = tuple(segment for segment in said if segment.source in read) if left else said
    unread = tuple(source for source in Source if source in left)
    return Selection(ScanRequest(segments, found.system_prompt, found.model), unread)


def sources_read(settings: Settings, model: str | None = None) -> frozenset[Source]:
    """The sources that at least one layer in use reads, in requests to this model."""
    used = {layer: settings.is_enabled(layer) for layer in LayerName}
    stated = {name: one.layers for name, one in settings.models.items() if one.layers is not None}
    if (only := by_model.find(stated, model)) is not None:
        used = {layer: used[layer] and layer in only for layer in used}
    terms = settings.scan.sources.by_source
    return frozenset(source for source, one in terms.items() if any(used[layer] for layer in one.layers))
