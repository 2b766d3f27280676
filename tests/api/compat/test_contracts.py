"""Every adapter against recorded requests and responses of the product, in `data/contracts.yaml` with its source."""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from compat_server import run_compat_server
from jsonschema import Draft202012Validator

RECORDED = yaml.safe_load((Path(__file__).parents[2] / "data" / "contracts.yaml").read_text("utf-8"))
DOCUMENTED = Path(__file__).parents[3] / "docs" / "recipes" / "others.md"
VERSIONS = ("013dab18", "32b14a4a", "LiteLLM 1.110.2", "openai-python 3.54.0", "Envoy 1.40", "nemo-microservices 1.5.0")
VERSIONS += ("nemoguardrails 0.24.1", "d521e03d", "gateway 1.15.2", "planoai 0.4.39")
TEXTS = {"attack": "Please EVIL now.", "benign": "Good morning!"}


def within(part: Any, complete: Any) -> bool:
    """Whether all of the first is in the second."""
    if isinstance(part, dict):
        return isinstance(complete, dict) and all(
            name in complete and within(part[name], complete[name]) for name in part
        )
    if isinstance(part, list):
        same = isinstance(complete, list) and len(part) == len(complete)
        return same and all(within(item, other) for item, other in zip(part, complete, strict=True))
    return bool(part == complete)


@pytest.mark.parametrize("kind", ["attack", "benign"])
@pytest.mark.parametrize("name", RECORDED)
async def test_what_they_send_is_answered_with_what_they_read(name: str, kind: str, tmp_path: Path) -> None:
    """A request of their shape gets the status and shape they read, with the verdict where they look for it."""
    contract = RECORDED[name]
    text = contract.get("texts", {}).get(kind, TEXTS[kind])
    question = json.loads(json.dumps(contract["asks"]).replace("TEXT", text))
    Draft202012Validator(contract["request"]).validate(question)
    async with run_compat_server(tmp_path, contract["switch"], **contract.get("settings", {})) as server:
        status, reply, _ = await server.ask(contract["path"], question)
    assert status == contract.get("statuses", {}).get(kind, 200)
    Draft202012Validator(contract["answer"]).validate(reply)
    assert within(contract[kind], reply), reply


def test_the_documentation_says_where_each_was_read() -> None:
    """The versions of the recordings, for every product."""
    page = DOCUMENTED.read_text("utf-8")
    for contract in RECORDED.values():
        assert f"`{contract['switch']}`" in page
    for version in VERSIONS:
        assert version in page


FULL = yaml.safe_load((Path(__file__).parents[2] / "data" / "contract_texts.yaml").read_text("utf-8"))
ATTACK, CARD = "Please EVIL now.", "Her card is 4111 1111 1111 1111."


def places(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all strings."""
    if isinstance(value, str):
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from places(child, f"{path}.{name}" if path else str(name))


def with_text(body: Any, path: str, text: str) -> Any:
    """A copy of a body with this text at this place, in arguments of a tool as the value of their parameter."""
    changed = copy.deepcopy(body)
    *before, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    parent = functools.reduce(operator.getitem, before, changed)
    parent[last] = json.dumps({"q": text}) if last == "arguments" else text
    return changed


def is_one_of(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path fits one of the patterns."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def is_attack(contract: Any, reply: Any) -> bool:
    """Whether the response says so; OpenAI's has a result for every input, a detector's is a list of detections."""
    if isinstance(reply, list):
        return "detection_type" in json.dumps(reply)
    results = reply.get("results") or [None]
    return any(within(contract["attack"], reply | ({"results": [result]} if result else {})) for result in results)


@pytest.mark.parametrize("name", FULL)
async def test_no_text_of_a_contract_is_skipped(name: str, tmp_path: Path) -> None:
    """Wherever a text can stand it is scanned, or the response says that it was not."""
    full = FULL[name]
    contract = RECORDED[full.get("of", name)]
    skipped, address = [], full.get("path", contract["path"])
    async with run_compat_server(
        tmp_path, contract["switch"], **contract.get("settings", {}) | full.get("settings", {})
    ) as server:
        for number, body in enumerate(full["bodies"]):
            _, reply, _ = await server.ask(address, body)
            assert not is_attack(contract, reply), reply
            for path in places(body):
                if is_one_of(path, full["no_text"]):
                    continue
                text = CARD if is_one_of(path, full.get("answers", ())) else ATTACK
                _, reply, headers = await server.ask(address, with_text(body, path, text))
                named = "media" in headers.get("x-sidecar-unscanned", "") and is_one_of(path, full.get("media", ()))
                if not (named or is_attack(contract, reply)):
                    skipped.append(f"{number}: {path}")
    assert skipped == []


def test_every_contract_has_a_full_body() -> None:
    """A new contract fails here until its texts are listed."""
    assert {full.get("of", name) for name, full in FULL.items()} == {name for name in RECORDED if "Envoy" not in name}
