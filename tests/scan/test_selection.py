"""Twin of sidecar/scan/selection.py: which texts of a request are scanned."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.config import Settings
from sidecar.extraction.extraction import extract
from sidecar.scan.selection import select, sources_read
from sidecar.types import Segment, Source

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ],
}
OFF = {"layers": []}


def test_every_source_is_read_by_default() -> None:
    """Joined segments and additional ones included."""
    scan_input = select(Settings(), extract(BODY, "/chat/completions", "openai"), [Segment("more")])
    assert [segment.text for segment in scan_input.request.segments] == [
        *("be kind", "one", "two", "three"),
        *("one three", "more"),
    ]
    assert (scan_input.request.system_prompt, scan_input.request.model, scan_input.unscanned) == ("be kind", "m", ())


def test_sources_that_no_layer_reads_are_named() -> None:
    """By the names of the settings."""
    settings = Settings.model_validate({"scan": {"sources": {"application": OFF, "model": OFF}}})
    scan_input = select(settings, extract(BODY, "/chat/completions", "openai"))
    assert {segment.source for segment in scan_input.request.segments} == {Source.USER}
    assert scan_input.unscanned == (Source.APPLICATION, Source.MODEL)
    assert select(settings, extract({"input": "hi"}, "/embeddings", "openai")).unscanned == ()


@pytest.mark.parametrize(
    ("layers", "sources"),
    [
        ({"rules": {"enabled": False}}, {Source.USER, Source.UNTRUSTED, Source.APPLICATION}),
        ({"semantic": {"enabled": False}}, set(Source)),
        ({"rules": {"enabled": False}, "semantic": {"enabled": False}}, set()),
    ],
)
def test_a_disabled_layer_reads_nothing(layers: dict[str, Any], sources: set[Source]) -> None:
    """The settings of sources do not override it."""
    assert sources_read(Settings.model_validate({"layers": layers})) == sources


ALL_OFF = {"layers": {"rules": {"enabled": False}, "semantic": {"enabled": False}}}
EMPTY = {"scan": {"sources": {str(source): OFF for source in Source}}}


@pytest.mark.parametrize(
    ("values", "unscanned"),
    [
        (ALL_OFF, ()),
        (EMPTY, ()),
        ({**ALL_OFF, "models": {"other": {"layers": []}}}, ()),
        ({**ALL_OFF, "models": {"m": {"layers": []}}}, ("user", "application", "model")),
        ({"models": {"m": {"layers": []}}}, ("user", "application", "model")),
        ({"scan": {"sources": {"user": OFF}}}, ("user",)),
    ],
)
def test_a_request_that_no_layer_reads_is_left_to_the_failure_policy(
    values: dict[str, Any], unscanned: tuple[str, ...]
) -> None:
    """All its texts go to the engine, which has no layer for them; only what was emptied by name is unscanned."""
    scan_input = select(Settings.model_validate(values), extract(BODY, "/chat/completions", "openai"))
    assert set(scan_input.unscanned) == set(unscanned)
    assert bool(scan_input.request.segments) is (len(unscanned) < 3)
