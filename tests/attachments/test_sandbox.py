"""Twin of attachments/sandbox.py: what a module may do once it reads a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.attachments.processes import SANDBOX

MEMORY = 256 * 1024 * 1024


def run(folder: Path, code: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The program with a module of this code, as the server runs it."""
    module = folder / "module.py"
    module.write_text(code)
    command = [sys.executable, "-I", str(SANDBOX), str(module), str(MEMORY), "2", "7", "9"]
    return subprocess.run(command, input=data, capture_output=True, timeout=100, env={}, check=False)


def test_a_module_gets_the_file_and_its_bounds(tmp_path: Path) -> None:
    """And its text is written, whatever characters it has."""
    result = run(tmp_path, "def read(*values): return repr(values) + chr(0xd800), True", b"data")
    assert json.loads(result.stdout) == {"text": "(b'data', 7, 9)?", "whole": True}


ACTS = ["open('/etc/hostname')", "socket.socket()", "bytearray(2**30)"]


@pytest.mark.parametrize("act", ACTS)
def test_the_process_can_open_nothing(tmp_path: Path, act: str) -> None:
    """Neither a file nor a connection, once it is confined; and its memory is bounded."""
    code = f"import socket\ndef read(*_):\n    try: {act}\n    except (OSError, MemoryError): return 'refused', True\n"
    assert json.loads(run(tmp_path, code).stdout)["text"] == "refused"


def test_its_processor_time_is_bounded(tmp_path: Path) -> None:
    """A file that is never read ends the process."""
    result = run(tmp_path, "def read(*_):\n    while True: pass")
    assert (result.returncode < 0, result.stdout) == (True, b"")
