"""Twin of sidecar/response_scan/extraction.py: everything that a model wrote, and nothing that it did not."""

from __future__ import annotations

import json

import pytest
from speech import PLACES, SYSTEM

from sidecar.response_scan.extraction import pieces, stream_pieces


@pytest.mark.parametrize("name", PLACES)
def test_a_text_in_any_field_is_seen(name: str) -> None:
    """Whole, and as the running text of one channel of a stream."""
    place = PLACES[name]
    assert "Quite so." in [piece.text for piece in pieces(place.response("Quite so."))]
    channels: dict[str, str] = {}
    for event in place.events(["Quite ", "so."]):
        data = event.partition(b"data: ")[2]
        if data.strip() != b"[DONE]":
            for piece in pieces(json.loads(data), stream=True):
                channels[piece.channel] = channels.get(piece.channel, "") + piece.text
    assert "Quite so." in channels.values()


@pytest.mark.parametrize("name", PLACES)
def test_ids_enums_and_echoes_are_no_texts(name: str) -> None:
    """An answer without a word holds none; what the API repeats of the request is not the model's."""
    texts = [piece.text for piece in pieces(PLACES[name].response(""))]
    assert SYSTEM not in texts
    assert [text for text in texts if text not in {"note", "Hm."} and "breakfast" not in text] == []


def test_choices_and_calls_have_channels_of_their_own() -> None:
    """The index that an item says itself counts, not where it stands."""
    call = {"index": 3, "function": {"arguments": "{"}}
    event = {"choices": [{"index": 1, "delta": {"content": "a", "tool_calls": [call]}}]}
    other = {"choices": [{"index": 2, "delta": {"content": "b"}}]}
    texts = [*pieces(event, stream=True), *pieces(other, stream=True)]
    assert [(piece.path, piece.json) for piece in texts] == [
        ("choices.1.delta.content", False),
        ("choices.1.delta.tool_calls.3.function.arguments", True),
        ("choices.2.delta.content", False),
    ]
    assert len({piece.channel for piece in texts}) == 3


def test_a_leak_in_pieces_of_a_calls_arguments_is_one_text() -> None:
    """Google streams the value of an argument piece by piece; each argument is a channel."""
    parts = [{"jsonPath": "$.to", "stringValue": text, "willContinue": True} for text in ("kestrel-", "7731")]
    calls = [{"functionCall": {"name": "send", "partialArgs": [part]}} for part in parts]
    events = [{"candidates": [{"content": {"parts": [call]}}]} for call in calls]
    texts = [piece for event in events for piece in pieces(event, stream=True) if "jsonPath" not in piece.path]
    channels = {piece.channel for piece in texts if piece.text in {"kestrel-", "7731"}}
    assert len(channels) == 1
    assert "" not in channels
    assert "kestrel-7731" in [piece.text for piece in stream_pieces(events)]


def test_the_names_in_a_tools_input_are_the_models_words() -> None:
    """So are its values under any name, and none of them is taken for an id."""
    texts = pieces({"content": [{"type": "tool_use", "id": "x", "input": {"a secret": 1, "id": "and one more"}}]})
    assert [piece.text for piece in texts] == ["a secret", "id", "and one more"]


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"token": "Quite", "logprob": -0.1, "top_logprobs": [{"token": "No"}]}, {"token": " so."}]},
        {"content": None, "refusal": [{"token": "Quite so."}]},
        {"tokens": ["Quite", " so."], "token_logprobs": [-0.1, None], "top_logprobs": [{"No": -2}], "text_offset": [0]},
        [{"token": "Quite", "bytes": [81], "logprob": -0.1}, {"token": " so."}],
    ],
)
def test_the_tokens_beside_a_text_spell_a_text(logprobs: object) -> None:
    """In every API's form; the alternatives were not said. In a stream they are a channel of each choice."""
    assert [p.text for p in pieces({"choices": [{"index": 0, "logprobs": logprobs}]}) if p.text] == ["Quite so."]  # type: ignore[dict-item]
    events = [{"choices": [{"index": index, "logprobs": logprobs}]} for index in (0, 0, 1)]
    channels: dict[str, str] = {}
    for event in events:
        for piece in pieces(event, stream=True):  # type: ignore[arg-type]
            channels[piece.channel] = channels.get(piece.channel, "") + piece.text
    assert sorted(channels.values()) == ["Quite so.", "Quite so.Quite so."]


@pytest.mark.parametrize("logprobs", [None, 5, "x", [], {}, {"content": [None, 5, {"token": 5}]}])
def test_odd_tokens_are_no_texts(logprobs: object) -> None:
    """Whatever stands there."""
    assert [piece for piece in pieces({"choices": [{"logprobs": logprobs}]}) if piece.text not in {"", "x"}] == []  # type: ignore[dict-item]


def test_media_are_no_texts() -> None:
    """Pictures and sound would be noise to every rule."""
    image = {"output": [{"type": "image_generation_call", "result": "aGVsbG8="}]}
    sound = {"type": "response.output_audio.delta", "delta": "aGVsbG8="}
    spoken = {"choices": [{"message": {"audio": {"id": "a", "data": "aGVsbG8=", "transcript": "Hello."}}}]}
    assert (pieces(image), pieces(sound, stream=True)) == ([], [])
    assert [piece.text for piece in pieces(spoken)] == ["Hello."]


def test_a_piece_is_replaced_where_it_stands() -> None:
    """And nothing else of the document."""
    document = {"choices": [{"message": {"content": "old", "n": 1.5}}], "z": None}
    pieces(document)[0].replace("new")
    assert document == {"choices": [{"message": {"content": "new", "n": 1.5}}], "z": None}


def test_deep_answers_are_read() -> None:
    """Nesting that no recursion would survive."""
    document: object = "end"
    for _ in range(5000):
        document = [document]
    assert [piece.text for piece in pieces(document)] == ["end"]
