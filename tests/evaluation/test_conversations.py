"""Twin of sidecar/evaluation/conversations.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.evaluation import conversations

USER = {"role": "user", "content": "hi"}
MODEL = {"role": "assistant", "content": "Hello."}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "12"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": [USER]}, "/chat/completions"),
        ({"messages": [USER, TOOL], "system": "Be kind."}, "/chat/completions"),
        ({"messages": [USER], "system": "Be kind."}, "/messages"),
        ({"messages": [USER], "tools": [{"name": "x", "input_schema": {}}]}, "/messages"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "/messages"),
        ({"messages": [USER], "system": "Be kind.", "dialect": "openai"}, "/chat/completions"),
        ({"body": {"input": "x"}}, "/responses"),
        ({"body": {"prompt": "x"}}, "/completions"),
        ({"body": {"input": "x"}, "dialect": "embeddings"}, "/embeddings"),
        ({"body": {"input": "x"}, "dialect": "/v1/responses/compact"}, "/responses/compact"),
    ],
)
def test_the_operation_is_the_one_that_is_named_or_shows(value: dict[str, Any], expected: str) -> None:
    """By `dialect`, else by what only one API has."""
    assert conversations.operation(value) == expected


@pytest.mark.parametrize("name", ["french", "/nowhere"])
def test_an_unknown_dialect_is_an_error(name: str) -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match="responses"):
        conversations.operation({"body": {}, "dialect": name})


def test_a_system_prompt_stands_where_its_api_has_it() -> None:
    """As first message for OpenAI, beside the messages for Anthropic."""
    openai = conversations.conversation({"messages": [USER], "system": "Be kind."}, "/chat/completions")
    assert [message["role"] for message in openai["messages"]] == ["system", "user"]
    assert conversations.conversation({"messages": [USER], "system": "Be kind."}, "/messages")["system"] == "Be kind."


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([USER], [1]),
        ([USER, MODEL], [1]),
        ([USER, MODEL, USER], [1, 3]),
        ([USER, MODEL, TOOL, MODEL, USER, MODEL], [1, 3, 5]),
        ([MODEL, USER], [2]),
    ],
)
def test_a_growing_conversation_is_a_request_for_each_turn_of_the_model(
    turns: list[dict[str, Any]], expected: list[int]
) -> None:
    """Each holds what came before the turn; a last one what no turn followed."""
    assert [len(body["messages"]) for body in conversations.growing({"messages": turns})] == expected


def test_a_responses_body_grows_by_its_input_and_a_single_prompt_does_not() -> None:
    """A call of a function is the model's, its output is not."""
    items = [USER, {"type": "function_call", "name": "f"}, {"type": "function_call_output", "output": "x"}]
    assert [len(body["input"]) for body in conversations.growing({"input": items})] == [1, 3]
    assert len(list(conversations.growing({"prompt": "x"}))) == 1


def test_a_document_is_a_users_text_or_the_result_of_a_tool() -> None:
    """As its channel says."""
    roles = [message["role"] for message in conversations.document("x", indirect=True, system="s")["messages"]]
    assert roles == ["system", "assistant", "tool"]
    assert conversations.document("x", indirect=False)["messages"] == [{"role": "user", "content": "x"}]
