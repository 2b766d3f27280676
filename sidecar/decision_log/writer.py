"""Every decision becomes one log line, some metrics and one row; nothing here ever holds up an answer.

Rows wait in a bounded queue and are written in batches; while the store does not take them they are
kept, and what the queue has no room for is dropped and counted. By default none of the three sinks gets
a word of a prompt: a text is known by its length and by an HMAC whose secret is random, shared by all
replicas, replaced from time to time, and deleted once no row refers to it.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecar import config
from sidecar.decision_log.entries import entry, redacted
from sidecar.errors import StoreError
from sidecar.observability import metrics, tracing
from sidecar.observability.metrics import cached_counter, cached_histogram
from sidecar.storage import Entry, Secret, Store
from sidecar.types import Decision, Segment, Verdict
from sidecar.util import logs
from sidecar.util.tasks import Background

SECRET = "scan_log"
SECRET_LIFE = timedelta(days=30)
HOUSEKEEPING = 3600.0
CHECKED = 1_000
"""Rows after which the bounds of the log are looked at."""
LESS = 0.9
"""Share of the rows that stay where the file has become too large."""
LEAST = 1_000
"""Rows that stay however large the file is."""
RETRY_PAUSE = 1.0
CLOSE_TIMEOUT = 5.0
_SHOWN = tuple(name for name in Entry.__slots__ if name not in {"at", "findings", "layers", "text", "reasoning"})
_EMPTY = frozenset({None, ""})
_log = logs.get("journal")


class Journal:
    """Records decisions. `start` it before the first `digest`; `close` writes what still waits."""

    def __init__(self, store: Store | None, settings: config.Store, log: config.Log) -> None:
        self._store = store
        self._settings = settings
        self._log_settings = log
        self._secret = Secret.new(0, datetime.now(UTC))
        self._queue: deque[Entry] = deque()
        self._filled = asyncio.Event()
        self._failing = False
        self._unchecked = 0
        self._background = Background()
        self._line = _log.bind()

    @property
    def healthy(self) -> bool:
        """False while the scan log is required (`log.required`) and cannot be written."""
        return not (self._log_settings.required and self._failing)

    async def start(self) -> None:
        """Fetch the shared secret and begin to write. May raise `StoreError`."""
        if self._store is None:
            return
        await self._renew_secret(self._store)
        self._background.repeat("journal_write", self._write_when_filled, 0.0)
        self._background.repeat("journal_housekeeping", self._keep_house, HOUSEKEEPING)

    async def close(self) -> None:
        """Write what waits, for at most `CLOSE_TIMEOUT` seconds; the rest is dropped and counted."""
        await self._background.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._write()
        except TimeoutError:
            _log.warning("log_close_timeout")
        metrics.LOG_DROPPED.inc(len(self._queue))
        self._queue.clear()

    def record(self, decision: Decision) -> None:
        """Log, count and queue. Never waits, never raises for the trouble of the store."""
        made = entry(decision)
        with suppress(OSError):  # nobody reads our standard error any more: no reason to refuse requests
            self._line.info("decision_made", **_facts(made))
        _count(decision)
        tracing.record(decision)
        if self._store is None:
            return
        if len(self._queue) >= self._settings.queue:
            metrics.LOG_DROPPED.inc()
            return
        self._queue.append(made)
        if len(self._queue) >= self._settings.batch:
            self._filled.set()

    def digest(self, text: str) -> str:
        """`GENERATION.HMAC`: equal for equal texts while the secret lives, and not to be guessed without it."""
        raw = text.encode("utf-8", "surrogatepass")
        return f"{self._secret.generation}.{hmac.digest(self._secret.value, raw, 'sha256').hex()}"

    def text_for_log(self, segments: Sequence[Segment], verdict: Verdict) -> str:
        """What `log.prompts` lets into the table: nothing, the text without what was found in it, or all of it."""
        if self._log_settings.prompts == "none":
            return ""
        if self._log_settings.prompts == "redacted":
            return redacted(segments, verdict)
        return "\n".join(segment.text for segment in segments)

    async def _write_when_filled(self) -> None:
        try:
            async with asyncio.timeout(self._settings.flush):
                await self._filled.wait()
        except TimeoutError:
            pass
        self._filled.clear()
        if not await self._write():
            await asyncio.sleep(RETRY_PAUSE)

    async def _write(self) -> bool:
        """Write batch after batch. An entry leaves the queue when it is written, and not before."""
        while self._queue and self._store is not None:
            metrics.LOG_QUEUE.set(len(self._queue))
            size = min(self._settings.batch, len(self._queue))
            try:
                await self._store.decisions.add([self._queue[index] for index in range(size)])
            except StoreError as error:
                self._note_failure(error)
                return False
            for _ in range(size):
                self._queue.popleft()
            self._note_success(size)
            self._unchecked += size
            if self._unchecked >= CHECKED:
                await self._keep_bound(self._store)
        return True

    async def _keep_bound(self, store: Store) -> None:
        """Delete the oldest rows beyond the bounds. The newest stay: other tables may fill the file."""
        self._unchecked, gone = 0, 0
        try:
            if self._log_settings.rows is not None:
                gone += await store.decisions.keep(self._log_settings.rows)
            while (await store.decisions.bytes() or 0) > self._log_settings.bytes:
                left = max(LEAST, int(LESS * await store.decisions.count()))
                gone += (shorter := await store.decisions.keep(left))
                if not shorter:
                    break
        except StoreError as error:
            _log.warning("log_not_trimmed", error=error)  # looked at again after the next rows
        finally:
            if gone:
                metrics.LOG_TRIMMED.inc(gone)
                _log.warning("log_trimmed", rows=gone)

    def _note_failure(self, error: StoreError) -> None:
        if not self._failing:
            _log.error("log_write_failed", error=error)
        self._failing = True

    def _note_success(self, size: int) -> None:
        if self._failing:
            _log.info("log_write_recovered", waiting=len(self._queue))
        self._failing = False
        metrics.LOG_WRITTEN.inc(size)
        metrics.LOG_QUEUE.set(len(self._queue))

    async def _keep_house(self) -> None:
        """Renew the secret when it is due; delete what is older than the retention or beyond the bounds."""
        if self._store is None:
            return
        await self._renew_secret(self._store)
        horizon = datetime.now(UTC) - timedelta(seconds=self._log_settings.retention)
        if gone := await self._store.decisions.purge(horizon):
            _log.info("log_purged", rows=gone)
        await self._store.secrets.purge(SECRET, horizon - SECRET_LIFE)
        await self._keep_bound(self._store)

    async def _renew_secret(self, store: Store) -> None:
        self._secret = await store.secrets.current(SECRET, datetime.now(UTC), SECRET_LIFE)


def _facts(made: Entry) -> dict[str, Any]:
    """The metadata of an entry, without what is empty."""
    facts = {name: value for name in _SHOWN if (value := getattr(made, name)) not in _EMPTY}
    if made.model and not _is_name(made.model):
        facts["model"] = "*"
    return facts


def _is_name(model: str) -> bool:
    """Whether this looks like the name of a model: in any other form a client could write a prompt into the log."""
    return all(char.isascii() and (char.isalnum() or char in "-._:/@+") for char in model)


def _count(decision: Decision) -> None:
    verdict = decision.verdict
    cached_counter(metrics.DECISIONS, decision.door, decision.action).inc()
    cached_histogram(metrics.SCAN_SECONDS, decision.door).observe(verdict.latency_ms / 1000)
    for label in verdict.threats:
        cached_counter(metrics.THREATS, label).inc()
    if decision.unscanned:
        cached_counter(metrics.UNSCANNED, decision.unscanned).inc()
    for report in verdict.reports:
        cached_histogram(metrics.LAYER_SECONDS, report.layer).observe(report.elapsed)
        if report.failure:
            cached_counter(metrics.LAYER_FAILURES, report.layer, report.failure).inc()
