"""Twin of sidecar/extraction/tool_names.py, in the three forms in which clients send tool results."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.extraction.tool_names import tool_names

CHAT = {
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "search"}}, {"id": "b", "name": "mail"}]},
        {"role": "tool", "tool_call_id": "b", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "function", "name": "old", "content": "x"},
        {"role": "tool", "tool_call_id": "absent", "content": "x"},
    ]
}
MESSAGES = {
    "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "search"}]},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "t"}]},
    ]
}
RESPONSES = {
    "input": [
        {"type": "function_call", "call_id": "c", "id": "f", "name": "search"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]
}

GEMINI = {
    "contents": [
        {"parts": [{"functionResponse": {"name": "search"}}, {"function_response": {"name": "mail"}}, {"text": ""}]}
    ]
}
CONVERSE = {
    "messages": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "search"}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t"}}, {"toolResult": {"toolUseId": "absent"}}]},
    ]
}


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (CHAT, {"messages.2": "mail", "messages.3": "search", "messages.4": "old"}),
        (MESSAGES, {"messages.1.content.1": "search"}),
        (RESPONSES, {"input.1": "search"}),
        (GEMINI, {"contents.0.parts.0": "search", "contents.0.parts.1": "mail"}),
        (CONVERSE, {"messages.1.content.0": "search"}),
        ({"messages": [{"role": "tool", "tool_call_id": 7, "content": [1, {"type": None}]}, 3], "input": "x"}, {}),
        ([], {}),
    ],
)
def test_a_result_has_the_name_of_the_tool_that_was_called(document: Any, names: dict[str, str]) -> None:
    """By the id of the call before it; odd bodies name none."""
    assert tool_names(document) == names
