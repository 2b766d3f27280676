"""Word from one replica to the others that something has changed, so that they need not wait for a cache to expire.

On PostgreSQL it is LISTEN and NOTIFY over a connection of its own. SQLite has no such thing: there, and whenever
word is lost, caches expire by themselves (5 s for keys). After each new connection everybody is told to forget
all, for word may have been missed.
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
PAUSE = 1.0
CHECK_EVERY = 20.0
CHECK_WITHIN = 5.0
EVERYTHING = ""
Listener = Callable[[str], None]
_log = logs.get("notices")


class Notices:
    """Tells and hears. `start` to hear; telling needs no start."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: dict[str, list[Listener]] = {}
        self._background = Background()

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Call `listener` with what has changed, `EVERYTHING` if that is not known. It must return at once."""
        self._listeners.setdefault(topic, []).append(listener)

    async def start(self) -> None:
        """Listen from now on, where the database can."""
        if self._database.connect is not None:
            self._background.repeat("notices_listen", self._listen, PAUSE)

    async def close(self) -> None:
        """Listen no more."""
        await self._background.close()

    async def publish(self, topic: str, what: str) -> None:
        """Tell the others. Best effort: never raises."""
        if self._database.connect is None:
            return
        try:
            async with self._database.write() as connection:
                said = {"channel": CHANNEL, "said": f"{topic} {what}"}
                await connection.execute(text("SELECT pg_notify(:channel, :said)"), said)
        except StoreError as error:
            _log.warning("notice_lost", topic=topic, error=error)

    async def _listen(self) -> None:
        """Listen until the connection breaks."""
        if self._database.connect is None:
            return
        try:
            connection = await self._database.connect()
        except StoreError as error:
            _log.warning("notices_unheard", error=error)
            return
        broken = asyncio.Event()
        try:
            connection.add_termination_listener(lambda *_: broken.set())
            await connection.add_listener(CHANNEL, lambda *heard: self._hear(str(heard[-1])))
            for topic in self._listeners:
                self._hear(f"{topic} {EVERYTHING}")
            while not broken.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(broken.wait(), CHECK_EVERY)
                    break
                await connection.execute("SELECT 1", timeout=CHECK_WITHIN)
        finally:
            connection.terminate()

    def _hear(self, said: str) -> None:
        topic, _, what = said.partition(" ")
        for listener in self._listeners.get(topic, ()):
            listener(what)
