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
    """Joined texts, too, and what is said beside the body."""
    chosen = select(Settings(), extract(BODY, "/chat/completions", "openai"), [Segment("more")])
    assert [segment.text for segment in chosen.request.segments] == [
        *("be kind", "one", "two", "three"),
        *("one\nthree", "more"),
    ]
    assert (chosen.request.system_prompt, chosen.request.model, chosen.unscanned) == ("be kind", "m", ())


def test_what_no_layer_reads_is_named() -> None:
    """In the words of the settings."""
    settings = Settings.model_validate({"scan": {"sources": {"application": OFF, "model": OFF}}})
    chosen = select(settings, extract(BODY, "/chat/completions", "openai"))
    assert {segment.source for segment in chosen.request.segments} == {Source.USER}
    assert chosen.unscanned == (Source.APPLICATION, Source.MODEL)
    assert select(settings, extract({"input": "hi"}, "/embeddings", "openai")).unscanned == ()


@pytest.mark.parametrize(
    ("layers", "read"),
    [
        ({"rules": {"enabled": False}}, {Source.USER, Source.UNTRUSTED, Source.APPLICATION}),
        ({"semantic": {"enabled": False}}, set(Source)),
        ({"rules": {"enabled": False}, "semantic": {"enabled": False}}, set()),
    ],
)
def test_a_layer_that_is_off_reads_nothing(layers: dict[str, Any], read: set[Source]) -> None:
    """Whatever the sources say."""
    assert sources_read(Settings.model_validate({"layers": layers})) == read
