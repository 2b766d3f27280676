"""Runs one process per file, bounded in time and output; whatever happens in it, the caller gets a result or None."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

SANDBOX = Path(__file__).with_name("sandbox.py")
_CHUNK = 64 * 1024


async def run(program: Path, arguments: tuple[object, ...], data: bytes, *, max_output: int) -> bytes | None:
    """What a program writes for this input; None if it fails or writes more than `max_output` bytes.

    Without environment variables, so that it knows no secrets. It has ended when this returns or is cancelled.
    """
    command = (sys.executable, "-I", str(program), *map(str, arguments))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={})
    try:
        output = await _exchange(process, data, max_output)
        return output if output is not None and await process.wait() == 0 else None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _exchange(process: Process, data: bytes, max_output: int) -> bytes | None:
    """Write the input, which a process that has ended does not read, and read all of the output."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(data)
    process.stdin.close()
    output = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        output += chunk
        if len(output) > max_output:
            return None
    return bytes(output)
