"""Several worker processes on one port: forked, supervised, restarted and stopped together.

The kernel distributes connections over the workers (SO_REUSEPORT). Each is a complete sidecar; they share the store,
Redis where configured, and the memory loaded before the fork. A worker that dies is restarted, with a growing delay
while it keeps dying, so that a failing start does not loop. A wrong configuration ends all of them at the start; later
those that still serve under the last good one go on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from sidecar.util import logs

_log = logs.get("workers")
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
STEADY = 30.0
MISCONFIGURED = 2
"""Exit code of a worker whose configuration is wrong: if no other worker serves, all stop."""
_STOP = {signal.SIGTERM, signal.SIGINT}
_SIGNALS = {*_STOP, signal.SIGHUP, signal.SIGCHLD}


@dataclass(slots=True)
class _Worker:
    """A worker slot: the process in it, its start time, and the delay before a restart."""

    number: int
    pid: int = 0
    since: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0


def fork_workers(count: int, has_served: Callable[[int], bool] = lambda _number: False) -> int:
    """Returns in each worker, with its number; call it before starting threads.

    `has_served`: whether the worker of that number, or a predecessor of it, ever served. The calling process supervises
    them until SIGTERM or SIGINT, and ends with `SystemExit`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    workers, code = [_Worker(number) for number in range(count)], None
    while code is None or any(worker.pid for worker in workers):
        for worker in workers:
            if code is None and not worker.pid and worker.due <= monotonic() and not _fork(worker):
                return worker.number
        code = _handle_signal(_wait(workers if code is None else []), workers, code)
        code = _reap(workers, code, has_served)
    raise SystemExit(code)


def _fork(worker: _Worker) -> int:
    worker.since, worker.pid = monotonic(), os.fork()
    if not worker.pid:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # an early reload request must not end the process
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return worker.pid


def _wait(workers: list[_Worker]) -> signal.struct_siginfo | None:
    """The next signal; None when a worker is due for a restart."""
    dues = [worker.due for worker in workers if not worker.pid]
    if not dues:
        return signal.sigwaitinfo(_SIGNALS)
    return signal.sigtimedwait(_SIGNALS, max(0.0, min(dues) - monotonic()))


def _handle_signal(received: signal.struct_siginfo | None, workers: list[_Worker], code: int | None) -> int | None:
    """Forward a signal to the workers.

    One sent by a terminal has reached them already, and a second would kill them.
    """
    if received is None or received.si_signo == signal.SIGCHLD:
        return code
    if received.si_code <= 0:  # by a process, not by the kernel
        _signal_all(workers, signal.SIGHUP if received.si_signo == signal.SIGHUP else signal.SIGTERM)
    return (code or 0) if received.si_signo in _STOP else code


def _signal_all(workers: list[_Worker], number: signal.Signals) -> None:
    for worker in workers:
        if worker.pid:
            os.kill(worker.pid, number)


def _reap(workers: list[_Worker], code: int | None, has_served: Callable[[int], bool]) -> int | None:
    """Collect exited workers and schedule their restarts; a wrong configuration stops all, unless others serve."""
    for worker in workers:
        ended, status = os.waitpid(worker.pid, os.WNOHANG) if worker.pid else (0, 0)
        if not ended:
            continue
        worker.pid, exit_code = 0, os.waitstatus_to_exitcode(status)
        if code is not None:
            continue
        if exit_code == MISCONFIGURED and not any(other.pid and has_served(other.number) for other in workers):
            code = exit_code
            _signal_all(workers, signal.SIGTERM)
        else:
            _schedule_restart(worker, exit_code)
    return code


def _schedule_restart(worker: _Worker, exit_code: int) -> None:
    steady = monotonic() - worker.since > STEADY
    worker.pause = FIRST_PAUSE if steady else min(worker.pause * 2, LONGEST_PAUSE)
    worker.due = monotonic() + worker.pause
    _log.error("worker_died", worker=worker.number, code=exit_code, restart_in=worker.pause)
