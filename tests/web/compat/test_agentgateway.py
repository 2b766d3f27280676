"""Twin of sidecar/web/compat/agentgateway.py: the recorded shapes of its guardrail webhook."""

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


async def test_answers_of_the_model_pass_unseen(tmp_path: Path) -> None:
    """The second webhook is answered; nothing is scanned or recorded as scanned."""
    choice = {"message": {"role": "assistant", "content": "Hello"}}
    async with counter(tmp_path, "agentgateway") as door:
        status, said, _ = await door.ask("/response", {"body": {"choices": [choice]}})
    assert (status, list(said["action"])) == (200, ["reason"])
    assert door.journal.decisions == []
