"""The measured processes on loopback, started one after another, with their memory and processor time.

Every target serves the OpenAI API in front of the same upstream. `spent`, `resident` and `proportional` measure
a process with all its descendants (Linux: /proc).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import yaml

from benchmarks.proxy import free_port

START_SECONDS = 180
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NGINX = """daemon off; error_log stderr crit; pid nginx.pid; worker_processes 2; events {{ worker_connections 4096; }}
http {{ access_log off; client_max_body_size 100m; client_body_buffer_size 2m; client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
upstream up {{ server 127.0.0.1:{to}; keepalive 128; }}
server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://up; proxy_http_version 1.1;
proxy_set_header Connection ""; proxy_buffering off; }} }} }}
"""
FILTER = {
    "guardrail_name": "filter",
    "litellm_params": {
        "guardrail": "litellm_content_filter",
        "mode": "pre_call",
        "default_on": True,
        "patterns": [
            {"pattern_type": "prebuilt", "pattern_name": name, "action": "MASK"}
            for name in ("us_ssn", "email", "visa", "mastercard", "amex", "aws_access_key", "github_token", "iban")
        ],
        "categories": [
            {"category": name, "enabled": True, "action": "BLOCK"}
            for name in ("prompt_injection_jailbreak", "prompt_injection_system_prompt")
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Target:
    """A server that requests are sent to. `ready`: seconds from the start to the first answer."""

    name: str
    port: int
    pid: int
    ready: float = 0.0
    key: str = ""


class World:
    """The processes of one run. An async context manager, which stops them all."""

    def __init__(self) -> None:
        self.upstream: Target
        self._stack = AsyncExitStack()
        self.folder = Path()

    async def __aenter__(self) -> World:
        """Start the upstream."""
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.upstream = await self._start("direct", [*_module("benchmarks.speed.servers"), "upstream"], "/count")
        return self

    async def prepare(self) -> None:
        """Prepare as after an installation: compile bytecode and run the rules' self-tests."""
        process = await asyncio.create_subprocess_exec(
            *_module("sidecar"), "check", cwd=self.folder, env=_environment()
        )
        if await process.wait():
            raise SystemExit("sidecar check: the policies are not in order")

    async def __aexit__(self, *_: object) -> None:
        """Stop all processes."""
        await self._stack.aclose()

    async def bare(self) -> Target:
        """The bare proxy."""
        return await self.proxy("bare aiohttp", "benchmarks.speed.servers", "bare")

    async def proxy(self, name: str, module: str, kind: str) -> Target:
        """A proxy of the benchmark, started by `python -m MODULE KIND PORT UPSTREAM-PORT`."""
        return await self._start(name, [*_module(module), kind], "/count", str(self.upstream.port))

    async def sidecar(
        self,
        name: str,
        *,
        semantic: bool = False,
        workers: int = 1,
        command: Sequence[str] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Target:
        """A sidecar with default settings except for ports, the semantic layer and the rate of its key.

        `command`: the command that starts it, if not the default.
        """
        port, admin = free_port(), free_port()
        settings = {
            "SIDECAR__LISTEN__PORT": port,
            "SIDECAR__ADMIN__PORT": admin,
            "SIDECAR__UPSTREAM__URL": f"http://127.0.0.1:{self.upstream.port}",
            "SIDECAR__LAYERS__SEMANTIC__ENABLED": str(semantic).lower(),
            "SIDECAR__STORE__URL": f"sqlite:///{self.folder}/{port}.db",
            "SIDECAR__LOG__FORMAT": "json",
            "SIDECAR__LIMITS__RATE": "10000000/minute",
            "SIDECAR__LIMITS__BURST": "10000000",
        }
        environ = {**environ, **{setting: str(value) for setting, value in settings.items()}}
        command = command or [*_module("sidecar"), "serve", "--no-first-key", "--workers", str(workers)]
        begun = time.perf_counter()
        process = self._spawn(command, environ, port)
        await _answers(f"http://127.0.0.1:{admin}/ready", process)
        ready = time.perf_counter() - begun
        created = await asyncio.create_subprocess_exec(
            *_module("sidecar"), "keys", "create", "bench", "--json",
            env={**os.environ, **environ}, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        output, _ = await created.communicate()
        return Target(name, port, process.pid, ready, yaml.safe_load(output)["key"])

    async def nginx(self, program: Path) -> Target:
        """Nginx as a reverse proxy, unbuffered."""
        port = free_port()
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, to=self.upstream.port, port=port), "utf-8")
        process = self._spawn([str(program), "-p", str(self.folder), "-c", str(config)], {}, port)
        await _answers(f"http://127.0.0.1:{port}/count", process)
        return Target("nginx", port, process.pid)

    async def litellm(self, program: Path, *, guarded: bool) -> Target:
        """LiteLLM's proxy, plain or with its own content filter."""
        port = free_port()
        params = {"model": "openai/m", "api_base": f"http://127.0.0.1:{self.upstream.port}/v1", "api_key": "x"}
        settings = {
            "model_list": [{"model_name": "m", "litellm_params": params}],
            "litellm_settings": {"num_retries": 0, "telemetry": False},
            **({"guardrails": [FILTER]} if guarded else {}),
        }
        config = self.folder / f"{port}.yaml"
        config.write_text(yaml.safe_dump(settings), "utf-8")
        environ = {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # our proxy requires no key, either
        }
        command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        process = self._spawn(command, environ, port)
        await _answers(f"http://127.0.0.1:{port}/health/liveliness", process)
        return Target("LiteLLM + content filter" if guarded else "LiteLLM", port, process.pid)

    async def _start(self, name: str, command: Sequence[str], path: str, *arguments: str) -> Target:
        port = free_port()
        process = self._spawn([*command, str(port), *arguments], {}, port)
        await _answers(f"http://127.0.0.1:{port}{path}", process)
        return Target(name, port, process.pid)

    def _spawn(self, command: Sequence[str], environ: Mapping[str, str], port: int) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self.folder / f"{port}.log").open("wb"))
        process = subprocess.Popen(command, cwd=self.folder, env={**_environment(), **environ}, stdout=log, stderr=log)
        self._stack.callback(_end, process)
        return process


def _environment() -> dict[str, str]:
    """The environment of this process, with bytecode caching enabled."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _answers(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the URL answers 200."""
    deadline = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                async with session.get(url, timeout=aiohttp.ClientTimeout(total=5)) as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.02)
    raise SystemExit(f"{url} did not answer (exit code {process.poll()})")


def tree(pid: int) -> Iterator[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    waiting = [pid]
    while waiting:
        yield (process := waiting.pop())
        waiting += parents.get(process, [])


def spent(pid: int) -> float:
    """Processor seconds of the tree so far."""
    lines = (Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split() for process in tree(pid))
    return sum(int(fields[11]) + int(fields[12]) for fields in lines) / TICK


def resident(pid: int) -> list[float]:
    """Megabytes of each process of the tree."""
    return [int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1]) * PAGE / 2**20 for process in tree(pid)]


def proportional(pid: int) -> float:
    """Megabytes of the tree, with each page divided by the number of processes that share it (PSS)."""
    rolled = (Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines() for process in tree(pid))
    return sum(int(line.split()[1]) for lines in rolled for line in lines if line.startswith("Pss:")) / 1024
