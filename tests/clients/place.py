"""The environment of a client: a new home, a new working folder with a few files, no keys or settings of the user."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "clients"
NODE, AGENTS, AIDER = BUILD / "npm" / "node_modules" / ".bin", BUILD / "agents" / "bin", BUILD / "aider" / "bin"
SECONDS = 240
QUIET = {
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "400",
    "LANG": "C.UTF-8",
    "CI": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a client."""

    code: int
    shown: str


@dataclass
class Place:
    """A home and a working folder, and the base URL (without `/v1`) for the client."""

    folder: Path
    url: str
    elsewhere: str
    """The proxy for all hosts outside loopback: it answers nothing and records the hosts."""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the folders."""
        for folder in (self.home, self.work, self.temporary):
            folder.mkdir(parents=True)

    @property
    def home(self) -> Path:
        """The client's home."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The client's working folder."""
        return self.folder / "work"

    @property
    def temporary(self) -> Path:
        """Its folder for temporary files; some clients keep no settings below it."""
        return self.folder / "tmp"

    def write(self, name: str, text: str) -> Path:
        """Write a file below home, where clients keep their settings."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def run(self, command: list[str | Path], seconds: float = SECONDS) -> Outcome:
        """Run the client; the test fails if it takes longer than `seconds`."""
        program = Path(command[0])
        if not program.exists():
            pytest.fail(f"{program.name} is not installed: make neighbours")
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.work,
            env=self._environment(),
            process_group=0,
        ) as process:
            try:
                shown, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                shown, _ = process.communicate()
                pytest.fail(f"{program.name} did not end within {seconds} s: {shown.decode(errors='replace')[-2000:]}")
        return Outcome(process.returncode, shown.decode("utf-8", "replace"))

    def _environment(self) -> dict[str, str]:
        folders = {
            "HOME": str(self.home),
            "PWD": str(self.work),
            "TMPDIR": str(self.temporary),
            "PATH": f"{AGENTS}:/usr/local/bin:/usr/bin:/bin:{Path(sys.executable).parent}",
        }
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), self.elsewhere)
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return QUIET | folders | proxies | direct | self.environment


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, 9)
