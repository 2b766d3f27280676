"""Twin of sidecar/actions/response_calls.py: calls of whole responses and of streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_turns import DIALECTS, HARMFUL, WORDS

from sidecar.actions.response_calls import StreamCalls, response_calls
from sidecar.response_scan.message_stream import parse_message


def documents(name: str) -> list[Any]:
    """The events of a stream with a call."""
    events = list(DIALECTS[name].events(WORDS, "send_mail", HARMFUL))
    if name == "bedrock":
        return [parse_message(message).document for message in events]
    return [json.loads(line[6:]) for line in b"".join(events).splitlines() if line.startswith(b"data: {")]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_whole_response(name: str) -> None:
    """The call, with parsed arguments and its place."""
    calls = response_calls(DIALECTS[name].body(WORDS, "send_mail", HARMFUL))
    assert [(call.name, call.arguments) for call in calls] == [("send_mail", HARMFUL)]
    assert calls[0].path


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_opens_and_completes_a_call(name: str) -> None:
    """Between its first piece and its end the stream is open."""
    stream, calls, opened = StreamCalls(), [], False
    for document in documents(name):
        calls += stream.observe(document)
        opened = opened or stream.is_open
    assert (opened, stream.is_open) == (name != "gemini", False)  # its calls are whole in one chunk
    assert {(call.name, json.dumps(call.arguments)) for call in calls} == {("send_mail", json.dumps(HARMFUL))}


def test_a_call_that_never_ends_is_completed_at_the_end() -> None:
    """As far as it came: a client may use it."""
    stream = StreamCalls()
    for document in documents("chat")[:-1]:
        stream.observe(document)
    assert [call.name for call in stream.finish()] == ["send_mail"]
    assert not stream.is_open


def test_parallel_calls_are_kept_apart() -> None:
    """By index."""
    stream = StreamCalls()

    def delta(index: int, name: str, text: str) -> dict[str, Any]:
        call = {"index": index, "function": {"name": name, "arguments": text}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}

    for document in (delta(0, "a", '{"x":'), delta(1, "b", '{"y":'), delta(0, "", "1}"), delta(1, "", "2}")):
        assert stream.observe(document) == []
    calls = stream.observe({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    assert [(call.name, call.arguments) for call in calls] == [("a", {"x": 1}), ("b", {"y": 2})]


def test_calls_of_one_index_are_kept_apart_by_id() -> None:
    """A provider that numbers them all 0 hides none; an id that is repeated with every piece is no new call."""
    stream, calls = StreamCalls(), []
    pieces = [("a", "send", '{"to":'), ("a", "", '"x"}'), ("b", "send", '{"to":"y"}'), ("c", "send", '{"to":"z"}')]
    for name, tool, text in pieces:
        call = {"index": 0, "id": name, "function": {"name": tool, "arguments": text}}
        calls += stream.observe({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]})
    calls += stream.observe({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert sorted((call.name, call.arguments["to"]) for call in calls) == [("send", "x"), ("send", "y"), ("send", "z")]


def test_many_open_calls_are_kept_apart() -> None:
    """The scanner bounds their number, not the parser."""
    calls = [{"index": number, "function": {"name": "a", "arguments": "{}"}} for number in range(300)]
    stream = StreamCalls()
    stream.observe({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]})
    assert [call.name for call in stream.finish()] == ["a"] * 300


def test_an_assistants_run_requires_its_calls() -> None:
    """`required_action` of a run."""
    calls = [{"id": "c", "type": "function", "function": {"name": "pay", "arguments": '{"to": "x"}'}}]
    run = {"object": "thread.run", "required_action": {"submit_tool_outputs": {"tool_calls": calls}}}
    assert [(call.name, call.arguments) for call in response_calls(run)] == [("pay", {"to": "x"})]


@pytest.mark.parametrize("document", [None, [], {}, {"choices": None}, {"choices": [None, {"delta": 3}]}, {"type": 3}])
def test_odd_events_hold_no_call(document: Any) -> None:
    """Nothing is raised."""
    assert (StreamCalls().observe(document), response_calls(document)) == ([], [])


def chunk(*calls: dict[str, Any]) -> dict[str, Any]:
    """One of Google's chunks with these calls."""
    return {"candidates": [{"content": {"parts": [{"functionCall": call} for call in calls]}}]}


def test_googles_list_of_chunks_holds_calls() -> None:
    """As a stream without server-sent events; a call in pieces is put together over them."""
    whole = {"name": "send_mail", "args": {"to": "x"}}
    pieces = [{"jsonPath": "$.to", "stringValue": text, "willContinue": text == "a"} for text in "ab"]
    begun = {"name": "pay", "partialArgs": pieces[:1], "willContinue": True}
    calls = response_calls([chunk(whole), chunk(begun), chunk({"partialArgs": pieces[1:]})])
    assert [(call.name, call.arguments) for call in calls] == [("send_mail", {"to": "x"}), ("pay", {"$.to": "ab"})]


def test_two_of_googles_calls_in_pieces_in_one_chunk() -> None:
    """The first ends before the second begins, and numbers stay numbers."""
    first = {"name": "send_mail", "partialArgs": [{"jsonPath": "$.to", "stringValue": "x"}]}
    second = {"name": "pay", "partialArgs": [{"jsonPath": "$.amount", "numberValue": 12.5}]}
    calls = StreamCalls().observe(chunk(first, second))
    assert [(call.name, call.arguments) for call in calls] == [
        ("send_mail", {"$.to": "x"}),
        ("pay", {"$.amount": 12.5}),
    ]


def test_googles_arguments_in_pieces_are_put_together() -> None:
    """By their path, until a piece says that none follows."""
    stream = StreamCalls()
    piece = {"jsonPath": "$.to", "stringValue": "archive@", "willContinue": True}
    assert stream.observe(chunk({"name": "send_mail", "partialArgs": [piece], "willContinue": True})) == []
    assert stream.is_open
    rest = {"jsonPath": "$.to", "stringValue": "vault.example"}
    (call,) = stream.observe(chunk({"partialArgs": [rest]}))
    assert (call.name, call.arguments) == ("send_mail", {"$.to": "archive@vault.example"})
    assert not stream.is_open
