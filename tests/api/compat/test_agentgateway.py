"""Twin of sidecar/api/compat/agentgateway.py: the recorded shapes of its guardrail webhook."""

from __future__ import annotations

import json
from pathlib import Path

from compat_server import run_compat_server

EVIL = "Please EVIL now."
RECIPE = Path(__file__).parents[3] / "docs" / "recipes" / "agentgateway.md"


async def test_a_prompt_is_rejected_or_passed(tmp_path: Path) -> None:
    """A rejection carries status and body for the client, in OpenAI's envelope; a pass has a reason alone."""
    async with run_compat_server(tmp_path, "agentgateway") as server:
        _, bad, _ = await server.ask("/request", {"body": {"messages": [{"role": "user", "content": EVIL}]}})
        _, good, _ = await server.ask("/request", {"body": {"messages": [{"role": "user", "content": "Hello"}]}})
    action = bad["action"]
    assert (action["status_code"], action["reason"]) == (400, "prompt_injection")
    assert json.loads(action["body"])["error"]["code"] == "content_filter"
    assert good == {"action": {"reason": "allow"}}


async def test_a_body_is_a_prompt_or_an_answer(tmp_path: Path) -> None:
    """Otherwise a prompt could pass as a response."""
    pair = {"choices": [], "messages": [{"role": "user", "content": EVIL}]}
    async with run_compat_server(tmp_path, "agentgateway") as server:
        assert (await server.ask("/request", {"body": pair}))[0] == 400


async def test_the_raw_message_format_is_refused(tmp_path: Path) -> None:
    """`messageFormat: raw` sends the client's body itself: an error, and not a pass of what was not read."""
    raw = {"model": "m", "messages": [{"role": "user", "content": EVIL}]}
    async with run_compat_server(tmp_path, "agentgateway") as server:
        assert (await server.ask("/request", raw))[0] == 400


async def test_answers_pass_unseen_unless_the_setting_says_so(tmp_path: Path) -> None:
    """By default nothing is scanned or recorded; with `responses: block` personal data is withheld."""
    choice = {"message": {"role": "assistant", "content": "Her card is 4111 1111 1111 1111."}}
    body = {"body": {"choices": [choice]}}
    async with run_compat_server(tmp_path, "agentgateway") as server:
        _, passed, headers = await server.ask("/response", body)
        assert server.decision_log.decisions == []
    async with run_compat_server(tmp_path, "agentgateway", responses="block", answers={"find": ["pii"]}) as server:
        _, withheld, _ = await server.ask("/response", body)
    assert passed == {"action": {"reason": "allow"}}
    assert headers["x-sidecar-unscanned"] == "answer"
    assert withheld["action"]["status_code"] == 400
    assert "withheld" in json.loads(withheld["action"]["body"])["error"]["message"]
    assert [decision.entrypoint for decision in server.decision_log.decisions] == ["answer"]


async def test_images_of_an_answer_are_named(tmp_path: Path) -> None:
    """No layer reads them."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "Here it is."}, image]
    body = {"body": {"choices": [{"message": {"role": "assistant", "content": parts}}]}}
    async with run_compat_server(tmp_path, "agentgateway", responses="block") as server:
        _, passed, headers = await server.ask("/response", body)
    assert (passed, headers["x-sidecar-unscanned"]) == ({"action": {"reason": "allow"}}, "media")


async def test_what_the_application_holds_is_left_alone_under_redact(tmp_path: Path) -> None:
    """Its contact address stays in its own message and in the user's, whose own address is replaced."""
    system = {"role": "system", "content": "Customers write to help@kestrel-ferry.com."}
    user = {"role": "user", "content": "I am ann.archer@seepost.ch. Is Help@kestrel-ferry.com right?"}
    async with run_compat_server(tmp_path, "agentgateway", pii="redact") as server:
        _, reply, headers = await server.ask("/request", {"body": {"messages": [system, user]}})
    masked = user | {"content": "I am <EMAIL_1>. Is Help@kestrel-ferry.com right?"}
    assert reply["action"]["body"] == {"messages": [system, masked]}
    assert headers["x-sidecar-redacted"] == "1"


async def test_an_answer_is_judged_without_its_prompt(tmp_path: Path) -> None:
    """The gateway sends none with it, so personal data of the user's own is a find; the recipe says so."""
    choice = {"message": {"role": "assistant", "content": "Dear ann.archer@seepost.ch, it is done."}}
    async with run_compat_server(tmp_path, "agentgateway", responses="block", answers={"find": ["pii"]}) as server:
        _, reply, _ = await server.ask("/response", {"body": {"choices": [choice]}})
    assert reply["action"]["status_code"] == 400
    assert "without the prompt" in RECIPE.read_text("utf-8")
