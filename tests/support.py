"""A real sidecar in a child process, and other helpers shared by test modules."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import fork_server
import httpx2 as httpx
import yaml

START_SECONDS = 180.0
END_SECONDS = 30.0
OUTPUT_SHOWN = 4_000
"""Characters of a sidecar's output that a failed test shows."""


def free_port() -> int:
    """A port that is currently unused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """The environment without sidecar settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SIDECAR__")}


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM, seconds: float = END_SECONDS) -> int:
    """Signal a process and return its exit code; kills it if it does not end in time."""
    try:
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=seconds)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def outcomes(started: Sequence[subprocess.Popen[bytes]], seconds: float = 60.0) -> list[tuple[bytes, bytes]]:
    """Close the input of processes and return their outputs; kills those that do not end in time."""
    for process in started:
        if process.stdin is not None:
            process.stdin.close()
            process.stdin = None
    try:
        return [process.communicate(timeout=seconds) for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()


def together(started: Sequence[subprocess.Popen[bytes]], seconds: float = 60.0) -> list[tuple[bytes, bytes]]:
    """Like `outcomes`, for processes that print a line when ready: waits for all before any may begin."""
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    return outcomes(started, seconds)


def sidecar(folder: Path, *arguments: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a `sidecar` command in a folder, with further variables of the environment; the output as text."""
    done = fork_server.run(arguments, {**clean_environment(), **environ}, stdin=stdin, cwd=folder)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass
class SidecarProcess:
    """A real `sidecar serve` in a child process with its own store. It is killed after its test (`no_survivors`).

    `launcher` is a command prefix and `address` the host to connect to, for a process in a separate network. A start
    waits until `probe`, a path of the admin port, answers 200.
    """

    started: ClassVar[list[tuple[SidecarProcess, subprocess.Popen[bytes]]]] = []
    folder: Path
    settings: Mapping[str, object]
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    launcher: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    python: str = sys.executable
    probe: str = "/ready"

    @property
    def base(self) -> str:
        """Base URL of the data port."""
        return f"http://{self.address}:{self.port}"

    @property
    def admin(self) -> str:
        """Base URL of the admin port."""
        return f"http://{self.address}:{self.admin_port}"

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "config.yaml"

    @property
    def output(self) -> str:
        """The output so far, of both streams."""
        return (self.folder / "output").read_text("utf-8", "replace")

    def write_config(self) -> None:
        """Write the settings file: the settings of the test, with separate ports and store."""
        defaults = {"admin": {"port": self.admin_port}, "store": {"url": f"sqlite:///{self.folder}/sidecar.db"}}
        listen = {"listen": {"port": self.port, **self.settings.get("listen", {})}}
        self.config.write_text(yaml.safe_dump({**defaults, **self.settings, **listen}), "utf-8")

    def start(self) -> SidecarProcess:
        """Start and wait until it is ready."""
        self.write_config()
        serve = ["serve", "--config", str(self.config), *self.arguments]
        is_usual = self.python == sys.executable and not self.launcher
        command = serve if is_usual else [*self.launcher, self.python, "-m", "sidecar", *serve]
        with (self.folder / "output").open("ab") as output:
            self.process = (fork_server.Command if is_usual else subprocess.Popen)(
                command, stdout=output, stderr=output, cwd=self.folder, env=clean_environment(), process_group=0
            )
        self.started.append((self, self.process))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"sidecar ended with {self.process.returncode}:\n{self.output}")
            try:
                if httpx.get(f"{self.admin}{self.probe}", timeout=2).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError(f"sidecar was not ready in time:\n{self.output}")

    def stop(self, seconds: float = END_SECONDS) -> int:
        """Terminate and return the exit code; kill after `seconds`."""
        assert self.process is not None
        return end(self.process, seconds=seconds)

    @classmethod
    def kill(cls, keep: int = 0) -> None:
        """Kill all started process groups except the first `keep`; prints, for a failed test, how they were."""
        for sidecar, process in cls.started[keep:]:
            print(f"sidecar on {sidecar.base}, exit code {process.poll()}:\n{sidecar.output[-OUTPUT_SHOWN:]}")  # noqa: T201 - for the report
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        del cls.started[keep:]

    def cli(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a `sidecar` command on the same settings."""
        return fork_server.run(arguments, clean_environment(), stdin=stdin or b"", cwd=self.folder, timeout=120)

    def new_key(self, name: str = "test", *options: str) -> dict[str, str]:
        """Create a key with the command line next to the running server."""
        result = self.cli("keys", "create", name, "--json", "--config", str(self.config), *options)
        assert result.returncode == 0, result.stderr
        key: dict[str, str] = json.loads(result.stdout)
        return key


StartSidecar = Callable[..., SidecarProcess]
RULES_ONLY = {"layers": {"semantic": {"enabled": False}}}
ONE_RULE = {**RULES_ONLY, "policies": [str(Path(__file__).parent / "data" / "one_rule.yaml")]}
"""Starts much faster, for tests that are not about detection."""
