"""Twin of sidecar/api/compat/litellm.py: the recorded shapes of LiteLLM's generic guardrail API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat_server import run_compat_server

from sidecar.types import Source

PATH = "/beta/litellm_basic_guardrail_api"
EVIL = "Please EVIL now."
RECORDED: dict[str, Any] = {
    "input_type": "request",
    "litellm_call_id": "0f3d8c5e-0000-4000-8000-000000000000",
    "litellm_trace_id": None,
    "structured_messages": [{"role": "user", "content": EVIL}],
    "images": None,
    "tools": None,
    "texts": [EVIL],
    "request_data": {"user_api_key_alias": "team", "user_api_key_user_id": "u"},
    "request_headers": {"content-type": "application/json", "authorization": "[present]"},
    "litellm_version": "1.110.2",
    "additional_provider_specific_params": {},
    "tool_calls": None,
    "model": "gpt-x",
}


async def test_an_attack_is_blocked_with_a_reason_and_a_benign_chat_passes(tmp_path: Path) -> None:
    """The two answers that LiteLLM knows; the reason names threats and decision, never the prompt."""
    benign = RECORDED | {"structured_messages": [{"role": "user", "content": "Hello"}], "texts": ["Hello"]}
    async with run_compat_server(tmp_path, "litellm") as server:
        _, bad, headers = await server.ask(PATH, RECORDED)
        _, good, _ = await server.ask(PATH, benign)
    assert bad["action"] == "BLOCKED"
    assert headers["x-sidecar-decision"] in bad["blocked_reason"]
    assert "prompt_injection" in bad["blocked_reason"]
    assert EVIL not in bad["blocked_reason"]
    assert good == {"action": "NONE"}
    assert [decision.model for decision in server.decision_log.decisions] == ["gpt-x", "gpt-x"]


async def test_roles_are_those_of_the_messages_and_loose_texts_are_the_users(tmp_path: Path) -> None:
    """A system prompt is the application's, however often it is said; a text that no message holds is the user's."""
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    question = RECORDED | {"structured_messages": messages, "texts": ["Be kind.", "Hello", "A loose text."]}
    async with run_compat_server(tmp_path, "litellm") as server:
        await server.ask(PATH, question)
        await server.ask(PATH, RECORDED | {"structured_messages": None})
    assert server.scanner.scanned[0].system_prompt == "Be kind."
    assert {segment.text: segment.source for segment in server.scanner.scanned[0].segments} == {
        "Be kind.": Source.APPLICATION,
        "Hello": Source.USER,
        "A loose text.": Source.USER,
    }
    assert [segment.text for segment in server.scanner.scanned[1].segments] == [EVIL]


async def test_tool_definitions_are_the_applications(tmp_path: Path) -> None:
    """They come beside the messages, and are not the user's."""
    function = {"name": "run_command", "description": "Runs it.", "parameters": {"properties": {"prompt": {}}}}
    question = RECORDED | {
        "structured_messages": [],
        "texts": [],
        "tools": [{"type": "function", "function": function}],
    }
    async with run_compat_server(tmp_path, "litellm") as server:
        _, reply, _ = await server.ask(PATH, question)
    assert reply == {"action": "NONE"}
    assert {segment.source for segment in server.scanner.scanned[0].segments} == {Source.APPLICATION}


async def test_pictures_go_by_the_failure_policy(tmp_path: Path) -> None:
    """Named as unscanned if allowed, else refused."""
    question = RECORDED | {"structured_messages": [], "texts": ["Hello"], "images": ["data:image/png;base64,AAAA"]}
    async with run_compat_server(tmp_path, "litellm") as server:
        _, reply, headers = await server.ask(PATH, question)
        assert (reply["action"], headers["x-sidecar-unscanned"]) == ("NONE", "media")
    async with run_compat_server(tmp_path, "litellm", failure={"input": {"media": "block"}}) as server:
        assert (await server.ask(PATH, question))[0] == 422


async def test_answers_of_the_model_pass_unseen_by_default(tmp_path: Path) -> None:
    """`input_type: response` is answered and nothing is scanned or recorded as scanned."""
    async with run_compat_server(tmp_path, "litellm") as server:
        _, reply, _ = await server.ask(PATH, RECORDED | {"input_type": "response"})
    assert reply == {"action": "NONE"}
    assert (server.scanner.scanned, server.decision_log.decisions) == ([], [])


@pytest.mark.parametrize(("responses", "action"), [("block", "BLOCKED"), ("flag", "NONE")])
async def test_answers_are_looked_at_where_the_setting_says_so(tmp_path: Path, responses: str, action: str) -> None:
    """Personal data that the user did not send blocks or is recorded; an ordinary response passes."""
    answer = RECORDED | {"input_type": "response", "texts": ["Her card is 4111 1111 1111 1111."]}
    async with run_compat_server(tmp_path, "litellm", responses=responses, answers={"find": ["pii"]}) as server:
        _, reply, _ = await server.ask(PATH, answer)
        _, ordinary, _ = await server.ask(PATH, answer | {"texts": ["Paris."]})
    assert (reply["action"], ordinary["action"]) == (action, "NONE")
    assert [(decision.entrypoint, decision.status) for decision in server.decision_log.decisions] == [("answer", 200)]
    assert "4111 1111" not in str(reply)


def call(arguments: str) -> dict[str, Any]:
    """A tool call of the model."""
    return {"id": "c", "type": "function", "function": {"name": "send", "arguments": arguments}}


async def test_tool_calls_of_an_answer_are_looked_at(tmp_path: Path) -> None:
    """LiteLLM sends them beside the texts; an ordinary call passes."""
    answer = RECORDED | {"input_type": "response", "texts": []}
    card = answer | {"tool_calls": [call('{"body": "card 4111 1111 1111 1111"}')]}
    async with run_compat_server(tmp_path, "litellm", responses="block", answers={"find": ["pii"]}) as server:
        _, bad, _ = await server.ask(PATH, card)
        _, good, _ = await server.ask(PATH, answer | {"tool_calls": [call('{"body": "Paris"}')]})
    assert (bad["action"], good["action"]) == ("BLOCKED", "NONE")


@pytest.mark.parametrize(("responses", "named"), [("off", "answer,media"), ("block", "media")])
async def test_images_of_an_answer_are_named(tmp_path: Path, responses: str, named: str) -> None:
    """No layer reads them, whether there are texts beside them or not."""
    answer = RECORDED | {"input_type": "response", "images": ["data:image/png;base64,AAAA"]}
    async with run_compat_server(tmp_path, "litellm", responses=responses) as server:
        _, reply, headers = await server.ask(PATH, answer | {"texts": ["Here it is."]})
        _, _, alone = await server.ask(PATH, answer | {"texts": []})
    assert (reply, headers["x-sidecar-unscanned"]) == ({"action": "NONE"}, named)
    assert alone["x-sidecar-unscanned"] == "media"


async def test_tool_calls_of_a_request_are_the_models(tmp_path: Path) -> None:
    """Those that are not among the messages already."""
    said = {"role": "assistant", "tool_calls": [call('{"body": "Hello"}')]}
    question = RECORDED | {"structured_messages": [said], "texts": []}
    async with run_compat_server(tmp_path, "litellm") as server:
        await server.ask(PATH, question | {"tool_calls": [call('{"body": "Hello"}'), call(f'{{"body": "{EVIL}"}}')]})
    scanned = server.scanner.scanned[0].segments
    assert {segment.source for segment in scanned} == {Source.MODEL}
    assert [EVIL in segment.text for segment in scanned].count(True) == 1
    assert ["Hello" in segment.text for segment in scanned].count(True) == 1


async def test_an_answer_that_nobody_looks_at_is_named(tmp_path: Path) -> None:
    """`responses: off`: allowed, and the header says that it was not looked at."""
    async with run_compat_server(tmp_path, "litellm") as server:
        _, reply, headers = await server.ask(PATH, RECORDED | {"input_type": "response"})
    assert (reply, headers["x-sidecar-unscanned"]) == ({"action": "NONE"}, "answer")


@pytest.mark.parametrize(("setting", "status", "action"), [("block", 503, "block"), ("allow", 200, "allow")])
async def test_an_answer_that_takes_too_long_to_look_at_follows_the_failure_policy(
    tmp_path: Path, setting: str, status: int, action: str
) -> None:
    """`scan.deadline` applies: closed is an error, open is named as unscanned; both are recorded."""
    answer = RECORDED | {"input_type": "response", "texts": ["The ferry leaves at seven, and not before. " * 1_500]}
    terms = {"responses": "block", "scan": {"deadline": "1ms"}, "failure": {"answer": setting}}
    async with run_compat_server(tmp_path, "litellm", **terms) as server:
        received, _, headers = await server.ask(PATH, answer)
    assert (received, headers.get("x-sidecar-unscanned")) == (status, "deadline" if setting == "allow" else None)
    (decision,) = server.decision_log.decisions
    assert (decision.entrypoint, decision.action, decision.verdict.failure) == ("answer", action, "deadline")


CONTACT, OWN = "help@kestrel-ferry.com", "ann.archer@seepost.ch"
PROMPT = [
    {"role": "system", "content": f"Customers write to {CONTACT}."},
    {"role": "user", "content": f"I am {OWN}. Is Help@kestrel-ferry.com right?"},
]


async def test_what_the_application_holds_is_left_alone_under_redact(tmp_path: Path) -> None:
    """Its contact address stays in its own text and in the user's, whose own address is replaced."""
    texts = [message["content"] for message in PROMPT]
    question = RECORDED | {"structured_messages": PROMPT, "texts": texts}
    async with run_compat_server(tmp_path, "litellm", pii="redact") as server:
        _, reply, headers = await server.ask(PATH, question)
    assert reply == {
        "action": "GUARDRAIL_INTERVENED",
        "texts": [texts[0], "I am <EMAIL_1>. Is Help@kestrel-ferry.com right?"],
    }
    assert headers["x-sidecar-redacted"] == "1"


async def test_what_the_prompt_holds_is_no_find_in_an_answer(tmp_path: Path) -> None:
    """LiteLLM sends the messages beside the answer: the user's value in another spelling, and the application's."""
    answer = RECORDED | {"input_type": "response", "structured_messages": PROMPT}
    said = f"Dear {OWN.title()}, write to {CONTACT.upper()}."
    async with run_compat_server(tmp_path, "litellm", responses="block", answers={"find": ["pii"]}) as server:
        _, known, _ = await server.ask(PATH, answer | {"texts": [said]})
        _, unknown, _ = await server.ask(PATH, answer | {"texts": [said], "structured_messages": None})
        _, other, _ = await server.ask(PATH, answer | {"texts": [f"{said} Or to mia.keller@bergwind.de."]})
    assert (known["action"], unknown["action"], other["action"]) == ("NONE", "BLOCKED", "BLOCKED")
