"""Twin of sidecar/response_scan/bodies.py: documents, lists of chunks, and what divides a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sidecar.response_scan.bodies import FRAMINGS, MAX_TEXTS, parse_body
from sidecar.response_scan.sse import Unreadable


def chunk(*texts: str) -> dict[str, Any]:
    """A chunk of Google's."""
    return {"candidates": [{"content": {"parts": [{"text": text} for text in texts]}}]}


async def texts(body: object) -> Sequence[str]:
    """The texts of a body."""
    _, found = await parse_body(json.dumps(body).encode())
    return [piece.text for piece in found]


async def test_the_chunks_of_a_list_are_also_one_text() -> None:
    """However its parts are numbered: a value that is split over chunks is found."""
    assert await texts([chunk("never men"), chunk("tion", " the flo"), chunk("od")]) == [
        "never men", "tion", " the flo", "od", "never mention the flood"
    ]  # fmt: skip


async def test_a_single_document_is_read_once() -> None:
    """A large one in a thread, with the same result."""
    assert await texts(chunk("Hello")) == ["Hello"]
    assert await texts(chunk("x" * 2_000_000)) == ["x" * 2_000_000]


async def test_what_no_model_wrote_is_unreadable() -> None:
    """More texts than a model writes, or no JSON."""
    with pytest.raises(Unreadable):
        await texts(chunk(*["x"] * (MAX_TEXTS + 1)))
    with pytest.raises(Unreadable):
        await parse_body(b"{")


def test_two_kinds_of_streams_are_read() -> None:
    """Every other content type is one that cannot be scanned."""
    assert set(FRAMINGS) == {"text/event-stream", "application/vnd.amazon.eventstream"}
