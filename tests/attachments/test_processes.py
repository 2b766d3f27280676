"""Twin of attachments/processes.py: real programs that answer, fail, talk without end, and never end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sidecar.attachments import processes


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file for the program of a test."""
    return tmp_path / "program.py"


async def run(program: Path, code: str, data: bytes = b"", max_output: int = 100) -> bytes | None:
    """What the program writes."""
    program.write_text(f"import os, sys, time\n{code}\n")  # noqa: ASYNC240 - a small file
    return await processes.run(program, (7,), data, max_output=max_output)


async def test_the_program_gets_input_and_arguments(program: Path) -> None:
    """All of both, however large, and its output comes back."""
    code = "data = sys.stdin.buffer.read(); print(len(data), data[-1], sys.argv[1:])"
    assert await run(program, code, b"x" * 5_000_000 + b"y") == b"5000001 121 ['7']\n"


async def test_the_program_knows_no_secrets(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none of the environment's variables."""
    monkeypatch.setenv("UPSTREAM_KEY", "sk-secret")
    output = await run(program, "print(*os.environ)")
    assert output is not None
    assert b"UPSTREAM_KEY" not in output


@pytest.mark.parametrize("code", ["sys.exit(1)", "os.abort()", "print(1); os.kill(os.getpid(), 9)", "1 / 0"])
async def test_a_program_that_fails_has_no_output(program: Path, code: str) -> None:
    """By its status, by a signal, or by an error, even after it has written something and read nothing."""
    assert await run(program, code, b"x" * 1_000_000) is None


async def test_a_program_that_writes_too_much_is_ended(program: Path) -> None:
    """At the bound, though it would go on for ever."""
    assert await run(program, "while True: print('x' * 1000)") is None


async def test_nothing_runs_after_the_deadline(program: Path, tmp_path: Path) -> None:
    """A program that is cancelled has ended when the caller goes on."""
    note = tmp_path / "pid"
    code = f"""
open({str(note)!r}, "w").write(str(os.getpid()))
os.rename({str(note)!r}, {f"{note}.done"!r})
time.sleep(600)
"""
    task = asyncio.ensure_future(run(program, code))
    while not Path(f"{note}.done").exists():  # noqa: ASYNC110, ASYNC240 - the program is another process
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path(f"{note}.done").read_text()), 0)  # noqa: ASYNC240
