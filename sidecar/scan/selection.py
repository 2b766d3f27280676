"""Which texts of a request are scanned: those of sources that some layer reads, and their joined readings.

Every entry point that takes more than a single prompt uses `select`, so that the same request is scanned the same way
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sidecar.config import Settings
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.tool_names import tool_names
from sidecar.types import LayerName, ScanRequest, Segment, Source
from sidecar.util import by_model

ALL_SOURCES = frozenset(Source)


class ScanInput(NamedTuple):
    """What is scanned. `unscanned`: kinds of content and sources that no layer reads (`x-sidecar-unscanned`)."""

    request: ScanRequest
    unscanned: tuple[str, ...] = ()


class Selector:
    """Selects the texts to scan under given settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sources = None if settings.models else sources_to_scan(settings)
        """The sources that are read whatever the model."""
        self._names_tools = any(terms.tool for terms in settings.exceptions)

    def select(
        self, extraction: Extraction, additional: Iterable[Segment] = (), document: JsonValue = None
    ) -> ScanInput:
        """The texts of an extraction from `document` that are to be scanned, and `additional` ones.

        Without the document no exception for a tool applies.
        """
        scanned = sources_to_scan(self._settings, extraction.model) if self._sources is None else self._sources
        candidates = (*extraction.segments, *extraction.joined, *additional)
        skipped = () if scanned == ALL_SOURCES else {segment.source for segment in candidates} - scanned
        segments = tuple(segment for segment in candidates if segment.source in scanned) if skipped else candidates
        unscanned = tuple(str(source) for source in Source if source in skipped) if skipped else ()
        tools = tool_names(document) if self._names_tools else {}
        return ScanInput(ScanRequest(segments, extraction.system_prompt, extraction.model, tools=tools), unscanned)


def select(
    settings: Settings, extraction: Extraction, additional: Iterable[Segment] = (), document: JsonValue = None
) -> ScanInput:
    """As `Selector.select`, for a single use."""
    return Selector(settings).select(extraction, additional, document)


def sources_to_scan(settings: Settings, model: str | None = None) -> frozenset[Source]:
    """The sources that some layer reads; all if none is read, so that `failure.all` decides about the request.

    A source without layers, or `models.NAME.layers: []`, is the operator's word that it is forwarded unscanned. Layers
    that are all off are not: they would have been asked.
    """
    is_left_open = by_model.find(_layers_by_model(settings), model) == ()
    return sources_read(settings, model) or (frozenset() if is_left_open else ALL_SOURCES)


def sources_read(settings: Settings, model: str | None = None) -> frozenset[Source]:
    """The sources that at least one layer in use reads, in requests to this model."""
    used = {layer: settings.is_enabled(layer) for layer in LayerName}
    if (allowed_layers := by_model.find(_layers_by_model(settings), model)) is not None:
        used = {layer: used[layer] and layer in allowed_layers for layer in used}
    source_settings = settings.scan.sources.by_source
    return frozenset(
        source for source, override in source_settings.items() if any(used[layer] for layer in override.layers)
    )


def _layers_by_model(settings: Settings) -> dict[str, tuple[LayerName, ...]]:
    return {name: override.layers for name, override in settings.models.items() if override.layers is not None}
