"""Topics of an operator's own without a judge: through a running sidecar and `sidecar check`, on the shipped model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession
from click.testing import CliRunner

from sidecar.cli.main import main
from sidecar.config import Settings
from sidecar.runtime.app import Sidecar

POEM, INVOICE = "Write a poem about the moon.", "The invoice of May was charged to the wrong card."
FEVER = "I have had a fever since Monday, which medicine should I take?"
BILLING = [
    "Why was I charged twice this month?",
    "Please send me a copy of my last invoice.",
    "How can I change the credit card on my account?",
    "My payment was declined, what should I do now?",
]
ALLOWED: dict[str, object] = {
    "id": "TOPIC-BILLING",
    "title": "Only questions about billing",
    "score": 0.7,
    "languages": ["any"],
    "topic": "allowed",
    "similar_to": BILLING,
    "match": [POEM],
    "no_match": [INVOICE],
}
DENIED: dict[str, object] = {
    **ALLOWED,
    "id": "TOPIC-MEDICINE",
    "title": "No medical advice",
    "status": "block",
    "topic": "denied",
    "similar_to": ["Which tablets help against a fever?", "I have had a headache for days, should I see a doctor?"],
    "match": [FEVER],
    "no_match": [INVOICE, POEM],
}


def settings(folder: Path, *rules: dict[str, object]) -> dict[str, object]:
    """Free ports, a store of our own, and these rules alone."""
    (folder / "topics.yaml").write_text(yaml.safe_dump({"family": "jailbreak", "rules": rules}), "utf-8")
    return {
        "listen": {"port": 0},
        "admin": {"port": 0},
        "store": {"url": f"sqlite:///{folder}/sidecar.db"},
        "scan": {"deadline": "60s"},
        "policies": [str(folder / "topics.yaml")],
    }


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[ClientSession]:
    """A client of a sidecar with both rules."""
    async with Sidecar(Settings.model_validate(settings(tmp_path, ALLOWED, DENIED))) as sidecar:
        _, key = await sidecar.keyring.create("k")
        base = f"http://127.0.0.1:{sidecar.data_port}"
        async with ClientSession(base, headers={"X-API-Key": key}) as client:
            yield client


async def answer(session: ClientSession, path: str, body: dict[str, object]) -> dict[str, Any]:
    """The result of a scan."""
    async with session.post(path, json=body) as response:
        assert response.status == 200, await response.text()
        found: dict[str, Any] = await response.json()
        return found


async def test_a_topic_is_explained_and_decides_only_if_it_blocks(session: ClientSession) -> None:
    """Off topic is a hint with its reason; a denied topic with status block is refused by the semantic layer."""
    off, on, denied = [
        await answer(session, "/api/v1/prompt/explain", {"prompt": prompt}) for prompt in (POEM, INVOICE, FEVER)
    ]
    (finding,) = [finding for finding in off["findings"] if finding["rule"] == "TOPIC-BILLING"]
    assert (finding["layer"], finding["hint"], finding["decides"]) == ("semantic", True, False)
    assert "of similar_to, the nearest; matches below 0.30" in finding["evidence"]
    assert (off["action"], off["threats"]) == ("allow", [])
    assert [finding for finding in on["findings"] if finding["rule"].startswith("TOPIC")] == []
    assert (denied["action"], denied["layer_used"], denied["risk_score"]) == ("block", "semantic", 0.7)
    assert denied["threats"] == ["jailbreak"]
    again = await answer(session, "/api/v1/prompt/explain", {"prompt": POEM})
    assert finding in again["findings"], "the same from the cache"


async def test_only_turns_of_users_with_a_topic_of_their_own_are_denied(session: ClientSession) -> None:
    """The same sentence of the application, of the model and of a tool passes; so does a follow-up."""
    turns = [
        {"role": "system", "content": FEVER},
        {"role": "user", "content": INVOICE},
        {"role": "assistant", "content": FEVER},
        {"role": "tool", "tool_call_id": "1", "content": FEVER},
        {"role": "user", "content": "And in March?"},
    ]
    assert (await answer(session, "/api/v1/chat/scan", {"messages": turns}))["action"] == "allow"
    turns.append({"role": "user", "content": FEVER})
    assert (await answer(session, "/api/v1/chat/scan", {"messages": turns}))["action"] == "block"


def check(folder: Path, *rules: dict[str, object]) -> dict[str, Any]:
    """What `sidecar check` says of these rules."""
    (folder / "c.yaml").write_text(yaml.safe_dump(settings(folder, *rules)), "utf-8")
    shown = CliRunner().invoke(main, ["check", "--config", str(folder / "c.yaml"), "--json"])
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_check_proves_topics_by_their_examples(tmp_path: Path) -> None:
    """A `match` line that is on topic and a `no_match` line that is not are named with the rule."""
    assert check(tmp_path, ALLOWED, DENIED)["ok"] is True
    wrong = check(tmp_path, {**ALLOWED, "match": [INVOICE], "no_match": [POEM]})
    assert wrong["problems"] == [
        f"TOPIC-BILLING: match {INVOICE!r} is not matched (direct)",
        f"TOPIC-BILLING: no_match {POEM!r} is matched (direct)",
    ]
