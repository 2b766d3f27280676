"""Tests of the child process by itself."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

from sidecar.upstream import local_server
from sidecar.upstream.local import MODEL_NAME, model_file


def test_it_prints_its_address_and_exits_with_its_input() -> None:
    """One line on standard output; when standard input closes, it exits without an error."""
    command = [sys.executable, str(Path(local_server.__file__)), str(model_file()), MODEL_NAME]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}/v1/models", timeout=10) as answer:  # noqa: S310 - loopback
            assert MODEL_NAME.encode() in answer.read()
        child.stdin.close()
        assert child.wait(timeout=10) == 0
        assert child.stdout.read() == ""


def test_an_invalid_model_file_is_an_error(tmp_path: Path) -> None:
    """The parent treats the end of the output as a failed start."""
    (tmp_path / "x.gguf").write_bytes(b"no model")
    command = [sys.executable, str(Path(local_server.__file__)), str(tmp_path / "x.gguf"), MODEL_NAME]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert (process.returncode != 0, process.stdout) == (True, b"")
