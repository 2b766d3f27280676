"""Twin of response_scan/stream_terminator.py: the last events of a stream that is withheld, in the API's own words."""

from __future__ import annotations

import json

from sidecar.response_scan.stream_terminator import StreamTerminator


def values(events: list[bytes] | None) -> list[dict]:
    """The data of the events."""
    assert events is not None
    parts = [event.partition(b"data: ")[2].strip() for event in events]
    return [json.loads(part) for part in parts if part != b"[DONE]"]


def test_every_choice_of_a_chat_gets_its_finish_reason() -> None:
    """With the head that all chunks have, and only choices that the client knows."""
    terminator = StreamTerminator("/chat/completions")
    for index in (0, 2, 2):
        chunk = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 7,
            "model": "m",
            "choices": [{"index": index}],
        }
        terminator.observe_received(chunk | {"usage": None})
        terminator.observe_sent(chunk)
    terminator.observe_received({"choices": [{"index": 9}]})
    assert terminator.events()[-1] == b"data: [DONE]\n\n"  # type: ignore[index]
    (last,) = values(terminator.events())
    assert {name: last[name] for name in ("id", "object", "created", "model")} == {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
    }
    assert [(c["index"], c["delta"], c["finish_reason"]) for c in last["choices"]] == [
        (0, {}, "content_filter"),
        (2, {}, "content_filter"),
    ]


def test_a_stream_of_which_nothing_was_sent_ends_too() -> None:
    """The first choice then speaks."""
    (last,) = values(StreamTerminator("/completions").events())
    assert last["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": "content_filter"}]


def test_a_response_ends_incomplete_with_the_next_number() -> None:
    """And without the output that was held back."""
    terminator = StreamTerminator("/responses")
    begun = {"type": "response.created", "sequence_number": 0, "response": {"id": "r", "status": "in_progress"}}
    terminator.observe_received(begun)
    terminator.observe_sent(begun)
    terminator.observe_sent({"type": "response.output_text.delta", "sequence_number": 4, "delta": "a"})
    (last,) = values(terminator.events())
    assert (last["type"], last["sequence_number"], last["response"]) == (
        "response.incomplete",
        5,
        {"id": "r", "status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
    )


def test_a_message_closes_the_blocks_that_are_open() -> None:
    """And no others."""
    terminator = StreamTerminator("/messages")
    for kind, index in (("start", 0), ("stop", 0), ("start", 1)):
        terminator.observe_sent({"type": f"content_block_{kind}", "index": index})
    last = values(terminator.events())
    assert [event["type"] for event in last] == ["content_block_stop", "message_delta", "message_stop"]
    assert (last[0]["index"], last[1]["delta"]["stop_reason"]) == (1, "refusal")


def test_other_apis_have_no_words_for_it() -> None:
    """Then the stream breaks off with an error; and what is no object is passed over."""
    terminator = StreamTerminator("/threads/runs")
    terminator.observe_received(None)
    terminator.observe_sent([])
    assert terminator.events() is None
