"""Processes of `sidecar` that need not import it: they are forked from a server that has.

A test starts hundreds of processes, and the imports and the shipped rules are most of what a start costs. The server
has done both. What it forks is a process like any other: a group, a folder, an environment and descriptors of its own,
a child of the test, and `sidecar.cli.main` from its first line. Tests of the start itself use `sys.executable`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MAX_REQUEST = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
_lock = threading.Lock()


class Command(subprocess.Popen[Any]):
    """`python -m sidecar ARGUMENTS`, forked from the server of this process. Takes what `subprocess.Popen` takes."""

    def _execute_child(self, *terms: Any) -> None:
        """What `Popen` calls to start its child; the terms are positions of CPython's own function."""
        arguments, folder, environment, group = terms[0], terms[5], terms[6], terms[-1]
        pipes = terms[10:16]
        wanted = {"arguments": arguments, "folder": os.fspath(folder or "."), "environment": dict(environment)}
        streams = [own if own != -1 else number for number, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        with _lock:
            self.pid = _fork({**wanted, "group": group}, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(
    arguments: Sequence[str], environment: Mapping[str, str], *, stdin: bytes = b"", cwd: Path, timeout: float = 250
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, as `subprocess.run` does with captured output."""
    pipe = subprocess.PIPE
    with Command(arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=environment) as command:
        try:
            output, errors = command.communicate(stdin, timeout)
        finally:
            command.kill()
    return subprocess.CompletedProcess(arguments, command.returncode, output, errors)


def _fork(wanted: Mapping[str, Any], streams: list[int]) -> int:
    """The process id of a new child of this process."""
    connection, set_subreaper = _server()[0], ctypes.CDLL(None, use_errno=True).prctl
    set_subreaper(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        request = json.dumps(wanted).encode()
        assert len(request) < MAX_REQUEST
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], streams)
        connection.sendall(request)
        return int(connection.recv(32))
    finally:
        set_subreaper(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The connection to a server, and the server, which ends with this process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    theirs.close()
    atexit.register(lambda: (ours.close(), server.wait()))
    return ours, server


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns in the child with the request, in the server at the end of the connection."""
    while True:
        size, streams, _, _ = socket.recv_fds(connection, 4, 3)
        if not size:
            return None
        request = b""
        while len(request) < int.from_bytes(size, "big"):
            request += connection.recv(MAX_REQUEST)
        reader, writer = os.pipe()
        middle = os.fork()
        if not middle:
            child = os.fork()
            if child:
                os.write(writer, str(child).encode())
                os._exit(0)
            os.close(reader)
            os.close(writer)
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            wanted: dict[str, Any] = json.loads(request)
            return wanted
        os.waitpid(middle, 0)  # the kernel has given its child to the test by now
        connection.sendall(os.read(reader, 32))
        for descriptor in (reader, writer, *streams):
            os.close(descriptor)


def main() -> None:
    """Import, then serve on the descriptor that is the argument."""
    from sidecar import policy  # noqa: PLC0415 - the test's side does not import it
    from sidecar.cli.examples import PROGRAM  # noqa: PLC0415
    from sidecar.cli.main import COMMANDS  # noqa: PLC0415
    from sidecar.cli.main import main as sidecar  # noqa: PLC0415
    from sidecar.detectors.rules.layer import RulesLayer  # noqa: PLC0415

    layer = RulesLayer(policy.load())
    for name in COMMANDS:
        COMMANDS[name]
    wanted = _serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        if wanted["group"] == 0:
            os.setpgid(0, 0)
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        sys.argv = ["sidecar", *wanted["arguments"]]
        sidecar(prog_name=PROGRAM)
    del layer


if __name__ == "__main__":
    main()
