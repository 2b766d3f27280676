"""Twin of sidecar/upstream/local.py: the real small model in its child process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict

from sidecar.config import Upstream as Settings
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream.local import LocalUpstream, model_file
from sidecar.upstream.local_server import MAX_TOKENS
from sidecar.upstream.message import UpstreamRequest

PACKAGE = Path(__file__).parents[2] / "sidecar"
CHAT = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0}


@pytest.fixture
async def model() -> AsyncIterator[LocalUpstream]:
    """The running model."""
    upstream = await LocalUpstream.start(Settings(url="local://"))
    yield upstream
    await upstream.close()


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - no file, a view of the kernel
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def post(body: dict[str, object]) -> UpstreamRequest:
    """A chat request."""
    headers = CIMultiDict({"Content-Type": "application/json"})
    return UpstreamRequest("POST", "/v1/chat/completions", headers, json.dumps(body).encode())


async def test_a_real_model_responds_complete_and_streamed(model: LocalUpstream) -> None:
    """The same text, in one body and in several events."""
    async with model.send(post(CHAT)) as answer:
        complete = json.loads(b"".join([chunk async for chunk in answer.chunks()]))
    async with model.send(post(CHAT | {"stream": True})) as answer:
        stream = b"".join([chunk async for chunk in answer.chunks()]).decode()
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    tokens = [event["choices"][0]["delta"].get("content") or "" for event in events]
    assert complete["choices"][0]["message"]["content"] == "".join(tokens) != ""
    assert len([part for part in tokens if part]) > 2
    assert stream.rstrip().endswith("data: [DONE]")


async def test_an_answer_without_a_limit_of_its_own_ends(model: LocalUpstream) -> None:
    """Otherwise the model goes on for a minute, which is the time that an answer may take."""
    unlimited = {"messages": CHAT["messages"], "ignore_eos": True}
    async with model.send(post(unlimited)) as answer:
        complete = json.loads(b"".join([chunk async for chunk in answer.chunks()]))
    assert complete["choices"][0]["finish_reason"] == "length"
    assert complete["usage"]["completion_tokens"] == MAX_TOKENS


async def test_closing_stops_the_child(model: LocalUpstream) -> None:
    """No process is left running."""
    assert alive(model.pid)
    await model.close()
    assert not alive(model.pid)


async def test_a_killed_child_is_a_502(model: LocalUpstream) -> None:
    """As with any unreachable upstream."""
    os.kill(model.pid, signal.SIGKILL)
    await model._child.process.wait()
    with pytest.raises(UpstreamError) as caught:
        async with model.send(post(CHAT)):
            pass
    assert caught.value.status == 502


def test_the_child_dies_with_its_parent() -> None:
    """Even when the parent is killed."""
    code = (
        "import asyncio, sys\n"
        "from sidecar.config import Upstream\n"
        "from sidecar.upstream.local import LocalUpstream\n"
        "async def main():\n"
        "    made = await LocalUpstream.start(Upstream(url='local://'))\n"
        "    print(made.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(child)


def test_a_missing_extra_is_named_with_what_to_install(tmp_path: Path) -> None:
    """The error says how to install the model."""
    shutil.copytree(PACKAGE, tmp_path / "sidecar", ignore=shutil.ignore_patterns("__pycache__"))
    needed = (
        "pydantic",
        "pydantic_core",
        "annotated_types",
        "typing_extensions",
        "typing_inspection",
        "yaml",
        "orjson",
    )
    needed += ("aiohttp", "multidict", "yarl", "propcache", "frozenlist", "aiosignal", "attr", "attrs", "idna")
    needed += ("aiohappyeyeballs", "tenacity", "typing_extensions.py", "structlog")
    site = Path(aiohttp.__file__).parent.parent
    for name in needed:
        if (site / name).exists() and not (tmp_path / name).exists():
            (tmp_path / name).symlink_to(site / name)
    code = "from sidecar.upstream.local import model_file; model_file()"
    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the extra [demo]" in process.stderr


def test_the_weights_are_found_without_importing_their_package() -> None:
    """The package has dependencies that are not needed here."""
    code = "import sys; from sidecar.upstream.local import model_file; print(model_file()); print('llm' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == [str(model_file()), "False"]


async def test_a_model_that_cannot_be_loaded_is_a_configuration_error(tmp_path: Path) -> None:
    """The error quotes the child, and does not tell to install what is installed."""
    with pytest.raises(ConfigError, match="did not start") as caught:
        await LocalUpstream.start(Settings(url="local://"), model=tmp_path / "missing.gguf")
    assert "pip install" not in str(caught.value)
    assert "its process ended and wrote: " in str(caught.value)
    assert "RuntimeError" in str(caught.value)


async def test_a_start_that_takes_too_long_is_told_as_such() -> None:
    """The time and a probable reason, not an extra that is installed."""
    with pytest.raises(ConfigError, match=r"not ready within 0\.001 s; is the machine busy") as caught:
        await LocalUpstream.start(Settings(url="local://"), start_timeout=0.001)
    assert "pip install" not in str(caught.value)


async def test_an_answer_that_takes_too_long_is_a_504_that_says_why() -> None:
    """Within a minute as served; here the patience is shorter than four thousand words take."""
    upstream = await LocalUpstream.start(Settings(url="local://", connect_timeout=2.0), patience=0.001)
    try:
        with pytest.raises(UpstreamError, match="did not answer within a minute") as caught:
            async with upstream.send(post({**CHAT, "max_tokens": 4000, "ignore_eos": True})):
                pass
        assert caught.value.status == 504
    finally:
        await upstream.close()
