"""Twin of sidecar/protocols/instructions.py: an instruction is added where each API keeps the application's."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.protocols.instructions import (
    add_to_instructions,
    add_to_messages,
    add_to_system,
    add_to_system_instruction,
)

NOTE = "Read with care."
USER = {"role": "user", "content": "Hello"}
TEXT_PART = {"type": "text", "text": "Be brief."}
BRIEF = {"parts": [{"text": "Be brief."}]}
NOTED = {"parts": [{"text": "Be brief."}, {"text": NOTE}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([USER], [{"role": "system", "content": NOTE}, USER]),
        ([], [{"role": "system", "content": NOTE}]),
        ([{"role": "system", "content": "Be brief."}], [{"role": "system", "content": f"Be brief.\n\n{NOTE}"}]),
        (
            [{"role": "developer", "content": [TEXT_PART]}, USER],
            [{"role": "developer", "content": [TEXT_PART, {"type": "text", "text": NOTE}]}, USER],
        ),
    ],
)
def test_messages_get_it_first(before: list[Any], after: list[Any]) -> None:
    """At the end of the application's first message, or as a message of its own."""
    body = {"messages": before}
    assert add_to_messages(body, NOTE)
    assert body == {"messages": after}


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, NOTE), ({"instructions": None}, NOTE), ({"instructions": "Be brief."}, f"Be brief.\n\n{NOTE}")],
)
def test_responses_get_it_as_instructions(before: dict[str, Any], after: str) -> None:
    """Set, or added to what is there."""
    assert add_to_instructions(before, NOTE)
    assert before == {"instructions": after}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, NOTE),
        ({"system": "Be brief."}, f"Be brief.\n\n{NOTE}"),
        ({"system": [TEXT_PART]}, [TEXT_PART, {"type": "text", "text": NOTE}]),
    ],
)
def test_anthropic_gets_it_at_the_end_of_system(before: dict[str, Any], after: Any) -> None:
    """A list of blocks gets one more, so that a cached prefix stays the same."""
    assert add_to_system(before, NOTE)
    assert before == {"system": after}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"systemInstruction": {"parts": [{"text": NOTE}]}}),
        ({"systemInstruction": BRIEF}, {"systemInstruction": NOTED}),
        ({"system_instruction": BRIEF}, {"system_instruction": NOTED}),
        ({"systemInstruction": {"parts": {"text": "Be brief."}}}, {"systemInstruction": NOTED}),
    ],
)
def test_gemini_gets_it_as_a_part(before: dict[str, Any], after: dict[str, Any]) -> None:
    """In the spelling of the request, also where a list of one is given as its item."""
    assert add_to_system_instruction(before, NOTE)
    assert before == after


@pytest.mark.parametrize(
    ("add", "body"),
    [
        (add_to_messages, {"messages": "Hello"}),
        (add_to_messages, {"messages": [{"role": "system", "content": 1}]}),
        (add_to_instructions, {"instructions": ["Be brief."]}),
        (add_to_system, {"system": {"text": "Be brief."}}),
        (add_to_system_instruction, {"systemInstruction": "Be brief."}),
        (add_to_system_instruction, {"cachedContent": "cachedContents/1"}),
    ],
)
def test_a_place_of_another_form_is_left_alone(add: Any, body: dict[str, Any]) -> None:
    """The body stays as it was, and the caller learns that there is no place."""
    before = dict(body)
    assert not add(body, NOTE)
    assert body == before
