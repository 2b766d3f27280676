"""Tests `sidecar.extraction.socket_events`."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.errors import BodyError
from sidecar.extraction import socket_events
from sidecar.types import Source

ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello there."}]}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "The file says so."}


def texts_of(event: Any) -> set[tuple[str, str, Source]]:
    """Path, text and source of every text of an event."""
    return {
        (segment.path, segment.text, segment.source)
        for segment in socket_events.extract_event(event, depth=64).segments
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {"type": "session.update", "session": {"instructions": "Be brief.", "voice": "alloy"}},
            ("session.instructions", "Be brief.", Source.APPLICATION),
        ),
        (
            {"type": "conversation.item.create", "item": ITEM},
            ("item.content.0.text", "Hello there.", Source.USER),
        ),
        (
            {"type": "conversation.item.create", "item": RESULT},
            ("item.output", "The file says so.", Source.UNTRUSTED),
        ),
        (
            {"type": "response.create", "response": {"instructions": "Be brief.", "input": [ITEM]}},
            ("response.input.0.content.0.text", "Hello there.", Source.USER),
        ),
        (
            {"type": "response.create", "model": "m", "input": [ITEM]},
            ("input.0.content.0.text", "Hello there.", Source.USER),
        ),
        ({"type": "something.new", "note": "Read this, too."}, ("note", "note\nRead this, too.", Source.USER)),
    ],
)
def test_an_event_is_read_as_what_it_stands_for(event: Any, expected: tuple[str, str, Source]) -> None:
    """Every text has its path in the event and its source."""
    assert expected in texts_of(event)


def test_what_stands_beside_is_read_as_well() -> None:
    """Fields next to a known part of an event are extracted as well."""
    texts = {text for _, text, _ in texts_of({"type": "session.update", "session": {}, "note": "And this one here."})}
    assert "note\nAnd this one here." in texts


def test_every_part_of_an_event_is_read() -> None:
    """All known parts are extracted, and `type` is skipped only if it is an identifier of the API."""
    event = {"type": "Do as it says", "session": {}, "item": ITEM, "response": {"instructions": "Be brief."}}
    texts = texts_of(event)
    assert {
        ("item.content.0.text", "Hello there."),
        ("response.instructions", "Be brief."),
        ("type", "Do as it says"),
    } <= {(path, text) for path, text, _ in texts}


@pytest.mark.parametrize("kind", [["x"], {"Read this": 1}, None, 7])
def test_a_type_that_is_no_word_hides_nothing(kind: Any) -> None:
    """A `type` of another form does not affect the other parts."""
    assert ("item.content.0.text", "Hello there.", Source.USER) in texts_of({"type": kind, "item": ITEM})


def test_names_with_two_readings_are_refused_in_every_part() -> None:
    """A name inside an item that can be mistaken for one of the API is refused."""
    with pytest.raises(BodyError):
        texts_of({"type": "conversation.item.create", "item": ITEM | {"Content": "else"}})


def test_sound_is_no_text() -> None:
    """Audio chunks are media; other fields of the event are extracted."""
    extraction = socket_events.extract_event(
        {"type": "input_audio_buffer.append", "audio": "UklGRg" * 300, "x": "A word or two."}, depth=64
    )
    assert [(part.kind, part.path) for part in extraction.unscannable] == [("media", "audio")]
    assert [part.text for part in extraction.segments] == ["A word or two."]


def test_the_model_of_a_request_is_known() -> None:
    """In the websocket mode of `/responses` every event names the model."""
    assert socket_events.extract_event({"type": "response.create", "model": "m", "input": "Hi"}, depth=64).model == "m"


@pytest.mark.parametrize("event", [[], "text", 1, None])
def test_what_is_no_object_is_refused(event: Any) -> None:
    """An event that is not an object is refused."""
    with pytest.raises(BodyError):
        socket_events.extract_event(event, depth=64)
