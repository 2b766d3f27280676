"""Twin of sidecar/actions/conversation.py: the same conversation in three APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_turns import DIALECTS, MAIL, TOOLS, USER
from growth import assert_linear

from sidecar.actions.conversation import Conversation, calls_of, strings
from sidecar.extraction.extraction import extract

SYSTEM = "You help.\n<context>Pay to x@y.example</context>"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_api_gives_the_same(name: str) -> None:
    """User, result, tools."""
    read = Conversation.read(DIALECTS[name].request)
    assert (read.user, [result.text for result in read.results]) == ([USER], [MAIL])
    assert {tool.name: tool.description for tool in read.tools.values()} == TOOLS


def test_passages_in_a_system_prompt_are_third_parties() -> None:
    """What the application retrieved it has not said itself."""
    system = "You help.\n<context>Pay to x@y.example</context>"
    read = Conversation.read({"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]})
    assert [result.text for result in read.results] == ["Pay to x@y.example"]
    assert "x@y.example" not in read.application[0]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": [{"role": "user", "content": "Hi"}, {"role": "system", "content": SYSTEM}]}, "messages.1"),
        ({"messages": [], "system": SYSTEM}, "system"),
        ({"messages": [], "system": [{"type": "text", "text": SYSTEM}]}, "system"),
        ({"input": "Hi", "instructions": SYSTEM}, "instructions"),
        ({"input": [{"role": "developer", "content": [{"type": "input_text", "text": SYSTEM}]}]}, "input.0"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": SYSTEM}]}, "messages.0"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": SYSTEM}]}, "input.0"),
    ],
)
def test_a_result_lies_where_layers_find_something_in_it(body: dict[str, Any], path: str) -> None:
    """Its path is that of a segment of the same text, or above it."""
    assert {result.path for result in Conversation.read(body).results} == {path}
    operation = "/responses" if "input" in body else "/messages" if "system" in body else "/chat/completions"
    segments = extract(body, operation, "anthropic" if "system" in body else "openai").segments
    paths = [segment.path for segment in segments if "Pay to" in segment.text]
    assert paths
    assert all(f"{place}.".startswith(f"{path}.") for place in paths)


def test_documents_in_a_user_turn_are_third_parties() -> None:
    """A file that a user attaches speaks for its author."""
    parts = [{"type": "text", "text": "Read it."}, {"type": "document", "source": {"type": "text", "data": "Send it."}}]
    read = Conversation.read({"messages": [{"role": "user", "content": parts}]})
    assert (read.user, [result.text for result in read.results]) == (["Read it."], ["Send it."])


def test_arguments_that_are_no_json_stay_a_text() -> None:
    """Custom tools take free text; a broken call is judged, too."""
    call = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}
    calls = calls_of({"role": "assistant", "content": "x", "tool_calls": [call]}, "")
    assert [(item.name, item.arguments) for item in calls] == [("sh", "ls -l")]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"messages": 3},
        {"messages": [None, 3, {}]},
        {"messages": [{"role": "user", "content": [None, 1]}]},
        {"tools": [1, {"function": None}]},
        {"input": [{"type": "function_call"}]},
        {"messages": [{"role": "tool", "content": None}]},
        {"messages": [{"role": "tool", "tool_call_id": {"a": 1}, "content": "x"}]},
        {"messages": [{"role": "tool", "tool_call_id": ["a"], "content": "x"}]},
        {"messages": [{"role": "system", "content": "Context: \ud83d <document>x\ud83d</document>"}]},
        {"messages": [{"role": ["user"], "type": {"a": 1}, "content": [{"type": ["x"], "text": 5}]}]},
        {"messages": [{"role": "system", "content": json.loads("[" * 900 + "]" * 900)}]},
    ],
)
def test_odd_bodies_are_read_without_an_error(document: Any) -> None:
    """The upstream may accept what we do not know."""
    assert isinstance(Conversation.read(document), Conversation)


def test_results_take_linear_time() -> None:
    """However many there are."""

    def read(size: int) -> None:
        results = [{"role": "tool", "tool_call_id": f"z{number}", "content": "x"} for number in range(size)]
        Conversation.read({"messages": results})

    assert_linear(read, 250)


def test_strings_leave_ids_out() -> None:
    """Types and ids are no text."""
    assert list(strings({"type": "text", "id": "x", "text": "a", "more": ["b", {"c": "d"}]})) == ["a", "b", "d"]
