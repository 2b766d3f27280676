"""Every adapter against recorded requests and responses of the product, in `data/contracts.yaml` with its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from compat_server import run_compat_server
from jsonschema import Draft202012Validator

RECORDED = yaml.safe_load((Path(__file__).parents[2] / "data" / "contracts.yaml").read_text("utf-8"))
DOCUMENTED = Path(__file__).parents[3] / "docs" / "recipes" / "others.md"
TEXTS = {"attack": "Please EVIL now.", "benign": "Good morning!"}


def within(part: Any, complete: Any) -> bool:
    """Whether all of the first is in the second."""
    if isinstance(part, dict):
        return isinstance(complete, dict) and all(
            name in complete and within(part[name], complete[name]) for name in part
        )
    if isinstance(part, list):
        return isinstance(complete, list) and all(
            within(item, other) for item, other in zip(part, complete, strict=True)
        )
    return bool(part == complete)


@pytest.mark.parametrize("kind", ["attack", "benign"])
@pytest.mark.parametrize("name", RECORDED)
async def test_what_they_send_is_answered_with_what_they_read(name: str, kind: str, tmp_path: Path) -> None:
    """A request of their shape gets 200 in their shape, with the verdict where they look for it."""
    contract = RECORDED[name]
    text = contract.get("texts", {}).get(kind, TEXTS[kind])
    question = json.loads(json.dumps(contract["asks"]).replace("TEXT", text))
    Draft202012Validator(contract["request"]).validate(question)
    async with run_compat_server(tmp_path, contract["switch"], **contract.get("settings", {})) as server:
        status, reply, _ = await server.ask(contract["path"], question)
    assert status == 200
    Draft202012Validator(contract["answer"]).validate(reply)
    assert within(contract[kind], reply), reply


def test_the_documentation_says_where_each_was_read() -> None:
    """The versions of the recordings, for every product."""
    page = DOCUMENTED.read_text("utf-8")
    for contract in RECORDED.values():
        assert f"`{contract['switch']}`" in page
    for version in ("013dab18", "32b14a4a", "LiteLLM 1.106.2", "openai-python 3.54.0", "Envoy 1.40"):
        assert version in page
