"""Cross-replica change notifications, so that replicas need not wait for a cache to expire.

On PostgreSQL this is LISTEN/NOTIFY over a separate connection. SQLite has no equivalent: there, and whenever a
notification is lost, caches expire by themselves (5 s for keys). After each new connection every listener is told to
drop its cache, since notifications may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import text

from sidecar.errors import StoreError
from sidecar.storage.database import Database
from sidecar.util import logs
from sidecar.util.tasks import Background

CHANNEL = "sidecar"
RECONNECT_INTERVAL = 1.0
LONGEST_PAUSE = 16.0
"""Most seconds between two attempts to listen: the pause doubles while they fail."""
CHECK_INTERVAL = 20.0
CHECK_TIMEOUT = 5.0
EVERYTHING = ""
Listener = Callable[[str], None]
_log = logs.get("notices")


class Notices:
    """Publishes and receives notifications. `start` is needed only to receive."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: dict[str, list[Listener]] = {}
        self._background = Background()
        self._pause = 0.0

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Call `listener` with the changed subject, `EVERYTHING` if unknown. It must not block."""
        self._listeners.setdefault(topic, []).append(listener)

    async def start(self) -> None:
        """Start listening, where the database can."""
        if self._database.connect is not None:
            self._background.repeat("notices_listen", self._listen, RECONNECT_INTERVAL)

    async def close(self) -> None:
        """Stop listening."""
        await self._background.close()

    async def publish(self, topic: str, subject: str) -> None:
        """Notify the other replicas. Best effort: never raises."""
        if self._database.connect is None:
            return
        try:
            async with self._database.write() as connection:
                payload = {"channel": CHANNEL, "said": f"{topic} {subject}"}
                await connection.execute(text("SELECT pg_notify(:channel, :said)"), payload)
        except StoreError as error:
            _log.warning("notice_lost", topic=topic, error=error)

    async def _listen(self) -> None:
        """Listen until the connection breaks."""
        if self._database.connect is None:
            return
        try:
            connection = await self._database.connect()
        except StoreError as error:
            if not self._pause:
                _log.warning("notices_unheard", error=error)  # once, until it listens again
            self._pause = min(max(self._pause * 2, RECONNECT_INTERVAL), LONGEST_PAUSE)
            await asyncio.sleep(self._pause - RECONNECT_INTERVAL)  # `repeat` adds the interval
            return
        if self._pause:
            _log.info("notices_heard_again")
        self._pause = 0.0
        disconnected = asyncio.Event()
        try:
            connection.add_termination_listener(lambda *_: disconnected.set())
            await connection.add_listener(CHANNEL, lambda *arguments: self._dispatch(str(arguments[-1])))
            for topic in self._listeners:
                self._dispatch(f"{topic} {EVERYTHING}")
            while not disconnected.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(disconnected.wait(), CHECK_INTERVAL)
                    break
                await connection.execute("SELECT 1", timeout=CHECK_TIMEOUT)
        finally:
            connection.terminate()

    def _dispatch(self, payload: str) -> None:
        topic, _, subject = payload.partition(" ")
        for listener in self._listeners.get(topic, ()):
            listener(subject)
