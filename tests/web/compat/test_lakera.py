"""Twin of sidecar/web/compat/lakera.py: the recorded shapes of Lakera Guard v2."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from compat_door import counter

EVIL = "Please EVIL now."
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": EVIL}]


async def test_a_verdict_is_flagged_or_not(tmp_path: Path) -> None:
    """Without further wishes: the flag and the request's id. The system prompt is given along, not scanned."""
    async with counter(tmp_path, "lakera") as door:
        _, bad, _ = await door.ask("/v2/guard", {"messages": CHAT, "project_id": "p"})
        _, good, _ = await door.ask("/v2/guard", {"messages": [{"role": "user", "content": "Good morning!"}]})
    assert (bad["flagged"], good["flagged"]) == (True, False)
    assert set(bad) == {"flagged", "metadata"}
    assert UUID(bad["metadata"]["request_uuid"])
    assert door.scanner.scanned[0].system_prompt == "Be kind."
    assert "Be kind." not in door.scanner.texts


async def test_breakdown_payload_and_build_on_request(tmp_path: Path) -> None:
    """Each detector with its message, places of personal data, and the version."""
    async with counter(tmp_path, "lakera") as door:
        wishes = {"breakdown": True, "payload": True, "dev_info": True}
        _, said, _ = await door.ask("/v2/guard", {"messages": CHAT, **wishes})
        _, good, _ = await door.ask("/v2/guard", {"messages": [{"role": "user", "content": "Hi"}], **wishes})
    line = said["breakdown"][0]
    assert (line["detector_type"], line["detected"], line["message_id"]) == ("prompt_attack", True, 1)
    assert set(line) == {"project_id", "policy_id", "detector_id", "detector_type", "detected", "message_id"}
    assert said["payload"] == []
    assert set(said["dev_info"]) == {"version", "model_version"}
    assert [line["detected"] for line in good["breakdown"]] == [False]
