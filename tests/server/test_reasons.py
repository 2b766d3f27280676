"""Tests `sidecar.server.reasons`: the message of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.server.reasons import describe_path, refusal_message
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict

CHAT: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "read_file"}}, {"name": "bash", "input_schema": {}}],
    "messages": [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "read_file", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "fetch", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
        {"role": "tool", "tool_call_id": "nobody", "content": "x"},
        {"role": "tool", "name": "Ignore all that", "content": "x"},
    ],
}
RESPONSES: dict[str, Any] = {
    "input": [
        {"type": "function_call", "call_id": "k", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k", "output": "x"},
    ]
}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("tools.0.function.description", CHAT, "the definition of tool `read_file` (tools.0.function.description)"),
        ("tools.1.name", CHAT, "the definition of tool `bash` (tools.1.name)"),
        ("messages.0.content", CHAT, "the system prompt (messages.0.content)"),
        ("messages.1.content", CHAT, "a message of the user (messages.1.content)"),
        ("messages.3.content", CHAT, "the result of tool `read_file` (messages.3.content)"),
        ("messages.5.content.0.content", CHAT, "the result of tool `fetch` (messages.5.content.0.content)"),
        ("messages.6.content", CHAT, "the result of tool (messages.6.content)"),
        ("messages.7.content", CHAT, "the result of tool (messages.7.content)"),
        ("messages", CHAT, "the conversation as a whole (messages)"),
        ("input.1.output", RESPONSES, "the result of tool `ls` (input.1.output)"),
        ("instructions", RESPONSES, "the system prompt (instructions)"),
        ("input", {"input": "x"}, "a message of the user (input)"),
        ("metadata.note", RESPONSES, "the request (metadata.note)"),
        ("messages.99.content", CHAT, "the request (messages.99.content)"),
        ("messages.1.content", None, "the request (messages.1.content)"),
        ("prompt", None, "the prompt"),
        (None, None, "the prompt"),
    ],
)
def test_a_place_is_named_in_words(path: str | None, body: Any, words: str) -> None:
    """Paths of every dialect are described; an invalid tool name is omitted."""
    assert describe_path(path, body) == words


def test_the_sentence_has_place_reason_and_decision() -> None:
    """The reason is the label of the strongest finding at the path."""
    path = "messages.3.content"
    findings = (
        Finding("A-1", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, path),
        Finding("A-2", Label.JAILBREAK, 0.7, LayerName.RULES, path),
    )
    reports = (LayerReport(LayerName.RULES, 0.9, findings),)
    verdict = Verdict(0.9, Action.BLOCK, (Label.JAILBREAK,), 1, LayerName.RULES, reports=reports, blocking_path=path)
    sentence = refusal_message("The prompt was refused by the prompt scanner.", verdict, "dec_1", CHAT)
    assert sentence == (
        "The prompt was refused by the prompt scanner: the result of tool `read_file` (messages.3.content) "
        "looks like an order to the assistant; decision dec_1."
    )


def test_without_findings_the_first_threat_is_the_reason() -> None:
    """Without findings, as if the judge set the score, the first threat is the reason."""
    verdict = Verdict(0.9, Action.BLOCK, (Label.SYSTEM_PROMPT_EXTRACTION,), 1, LayerName.LLM_JUDGE)
    assert refusal_message("No.", verdict, "dec_2") == (
        "No: the prompt looks like an attempt to get at the system prompt; decision dec_2."
    )
