"""Twin of sidecar/api/compat/agentgateway.py: the recorded shapes of its guardrail webhook."""

from __future__ import annotations

import json
from pathlib import Path

from compat_door import counter

EVIL = "Please EVIL now."


async def test_a_prompt_is_rejected_or_passed(tmp_path: Path) -> None:
    """A rejection carries status and body for the client, in OpenAI's envelope; a pass has a reason alone."""
    async with counter(tmp_path, "agentgateway") as door:
        _, bad, _ = await door.ask("/request", {"body": {"messages": [{"role": "user", "content": EVIL}]}})
        _, good, _ = await door.ask("/request", {"body": {"messages": [{"role": "user", "content": "Hello"}]}})
    action = bad["action"]
    assert (action["status_code"], action["reason"]) == (400, "prompt_injection")
    assert json.loads(action["body"])["error"]["code"] == "content_filter"
    assert good == {"action": {"reason": "allow"}}


async def test_a_body_is_a_prompt_or_an_answer(tmp_path: Path) -> None:
    """Otherwise a prompt could pass as a response."""
    pair = {"choices": [], "messages": [{"role": "user", "content": EVIL}]}
    async with counter(tmp_path, "agentgateway") as door:
        assert (await door.ask("/request", {"body": pair}))[0] == 400


async def test_answers_pass_unseen_unless_the_setting_says_so(tmp_path: Path) -> None:
    """By default nothing is scanned or recorded; with `responses: block` personal data is withheld."""
    choice = {"message": {"role": "assistant", "content": "Her card is 4111 1111 1111 1111."}}
    body = {"body": {"choices": [choice]}}
    async with counter(tmp_path, "agentgateway") as door:
        _, passed, _ = await door.ask("/response", body)
        assert door.decision_log.decisions == []
    async with counter(tmp_path, "agentgateway", responses="block") as door:
        _, withheld, _ = await door.ask("/response", body)
    assert passed == {"action": {"reason": "allow"}}
    assert withheld["action"]["status_code"] == 400
    assert "withheld" in json.loads(withheld["action"]["body"])["error"]["message"]
    assert [decision.entrypoint for decision in door.decision_log.decisions] == ["answer"]
