"""The signals that end a command."""

from __future__ import annotations

import asyncio
import os
import signal


def stop_on_signal() -> asyncio.Event:
    """An event set on SIGTERM or SIGINT; a second signal ends the process at once. Call before opening anything.

    SIGHUP is ignored, so that a reload request before there is anything to reload does not end the process.
    """
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    return stop
