"""Several worker processes on one port: forked, watched, started again and stopped together.

The kernel spreads connections over the workers (SO_REUSEPORT). Each is a whole sidecar; what they share is the store,
Redis where configured, and the memory of all that was loaded before they parted. A worker that dies is started again,
ever more slowly while it keeps dying, so that a broken start does not spin.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from time import monotonic

from sidecar.util import logs

_log = logs.get("workers")
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
STEADY = 30.0
MISCONFIGURED = 2
"""The exit code of a worker that cannot start: no restart mends it, all stop."""
_STOP = {signal.SIGTERM, signal.SIGINT}
_SIGNALS = {*_STOP, signal.SIGHUP, signal.SIGCHLD}


@dataclass(slots=True)
class _Worker:
    """The place of a worker: who is there since when, and the pause before the next."""

    number: int
    pid: int = 0
    since: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0


def spread(count: int) -> int:
    """Returns in each worker, with its number; call it before there are threads.

    The process that called it watches them until SIGTERM or SIGINT, and ends with `SystemExit`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    places, code = [_Worker(number) for number in range(count)], None
    while code is None or any(place.pid for place in places):
        for place in places:
            if code is None and not place.pid and place.due <= monotonic() and not _fork(place):
                return place.number
        code = _heed(_wait(places if code is None else []), places, code)
        code = _reap(places, code)
    raise SystemExit(code)


def _fork(place: _Worker) -> int:
    place.since, place.pid = monotonic(), os.fork()
    if not place.pid:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a reload asked for before there is anything shall not end it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return place.pid


def _wait(places: list[_Worker]) -> signal.struct_siginfo | None:
    """The next signal; None when it is time to start a worker again."""
    dues = [place.due for place in places if not place.pid]
    if not dues:
        return signal.sigwaitinfo(_SIGNALS)
    return signal.sigtimedwait(_SIGNALS, max(0.0, min(dues) - monotonic()))


def _heed(received: signal.struct_siginfo | None, places: list[_Worker], code: int | None) -> int | None:
    """Hand a signal on. A terminal has told the workers itself, and a second time would cut them short."""
    if received is None or received.si_signo == signal.SIGCHLD:
        return code
    if received.si_code <= 0:  # by a process, not by the kernel
        _tell(places, signal.SIGHUP if received.si_signo == signal.SIGHUP else signal.SIGTERM)
    return (code or 0) if received.si_signo in _STOP else code


def _tell(places: list[_Worker], number: signal.Signals) -> None:
    for place in places:
        if place.pid:
            os.kill(place.pid, number)


def _reap(places: list[_Worker], code: int | None) -> int | None:
    """See who has ended, and when the next is due; a worker that cannot start stops all."""
    for place in places:
        ended, status = os.waitpid(place.pid, os.WNOHANG) if place.pid else (0, 0)
        if not ended:
            continue
        place.pid, exit_code = 0, os.waitstatus_to_exitcode(status)
        if code is None and exit_code == MISCONFIGURED:
            code = exit_code
            _tell(places, signal.SIGTERM)
        elif code is None:
            steady = monotonic() - place.since > STEADY
            place.pause = FIRST_PAUSE if steady else min(place.pause * 2, LONGEST_PAUSE)
            place.due = monotonic() + place.pause
            _log.error("worker_died", worker=place.number, code=exit_code, restart_in=place.pause)
    return code
