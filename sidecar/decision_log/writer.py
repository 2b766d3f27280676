"""Every decision becomes one log line, some metrics and one row; recording never delays a response.

Rows wait in a bounded queue and are written in batches. While the database does not accept them they are kept; rows
that do not fit the queue are dropped and counted. By default none of the three sinks gets text of a prompt: a text is
identified by its length and by an HMAC whose secret is random, shared by all replicas, rotated periodically, and
deleted once no row refers to it.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecar import config
from sidecar.decision_log.receipts import receipt
from sidecar.decision_log.rows import decision_row, redact_texts
from sidecar.decision_log.sink import Event, Sink
from sidecar.errors import StoreError
from sidecar.observability import metrics, tracing
from sidecar.observability.metrics import cached_counter, cached_histogram
from sidecar.storage import DecisionRow, Secret, Store
from sidecar.taxonomy import identifiers
from sidecar.types import Action, Decision, Label, Segment, Verdict
from sidecar.util import logs
from sidecar.util.signatures import Signer
from sidecar.util.tasks import Background

SECRET = "scan_log"
SECRET_LIFE = timedelta(days=30)
HOUSEKEEPING_INTERVAL = 3600.0
CHECK_EVERY = 1_000
"""Rows written between two checks of the log's bounds."""
KEEP_SHARE = 0.9
"""Share of the rows that is kept when the file is too large."""
MIN_ROWS = 1_000
"""Rows that are kept however large the file is."""
MAX_LOGGED_RULES = 5
CLIENT_CHARS = 20
"""Of the digest of an address: enough to tell clients apart."""
RETRY_PAUSE = 1.0
CLOSE_TIMEOUT = 5.0
_NOT_LOGGED = {"at", "findings", "layers", "text", "reasoning", "request"}
_LOGGED_FIELDS = tuple(name for name in DecisionRow.__slots__ if name not in _NOT_LOGGED)
_EMPTY = frozenset({None, ""})
_NAME = re.compile(r"[A-Za-z0-9._:/@+-]*")
_log = logs.get("journal")


class DecisionLog:
    """Records decisions. `start` it before the first `digest`; `close` writes the queued rows.

    Invariant: a row leaves the queue only after it was written, so a failed batch is written again.
    """

    def __init__(
        self,
        store: Store | None,
        settings: config.Store,
        log: config.Log,
        sinks: Sequence[Sink] = (),
        signer: Signer | None = None,
    ) -> None:
        """`signer`: signs receipts, if decisions have any."""
        self._sinks, self._signer = sinks, signer
        self._store = store
        self._settings = settings
        self._log_settings = log
        self._secret = Secret.new(0, datetime.now(UTC))
        self._queue: deque[DecisionRow] = deque()
        self._due = 0  # rows of the queue that are being written
        self._batch_ready = asyncio.Event()
        self._failing = False
        self._reason = ""
        self._rows_since_check = 0
        self._background = Background()
        self._logger = _log.bind()

    @property
    def healthy(self) -> bool:
        """False while the scan log is required (`log.required`) and cannot be written."""
        return not (self._log_settings.required and self._failing)

    @property
    def problem(self) -> str | None:
        """Why decisions wait to be written; None if they do not. A read of the same store may succeed meanwhile."""
        return f"decisions wait to be written: {self._reason}" if self._failing else None

    async def probe(self) -> None:
        """Nothing: decisions that wait are tried again every `RETRY_PAUSE` seconds."""

    async def start(self) -> None:
        """Fetch the shared secret and start writing. May raise `StoreError`."""
        if self._store is None:
            return
        metrics.LOG_QUEUE.set_function(lambda: len(self._queue))
        await self._renew_secret(self._store)
        self._background.repeat("journal_write", self._write_when_due, 0.0)
        self._background.repeat("journal_housekeeping", self._run_housekeeping, HOUSEKEEPING_INTERVAL)

    async def close(self) -> None:
        """Write the queued rows, for at most `CLOSE_TIMEOUT` seconds; the others are dropped and counted."""
        await self._background.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while self._queue and await self._write():
                    pass
        except TimeoutError:
            _log.warning("log_close_timeout")
        metrics.LOG_DROPPED.inc(len(self._queue))
        self._queue.clear()

    def record(self, decision: Decision) -> None:
        """Log, count and queue. Never waits, and never raises for a failing database."""
        row = decision_row(decision)
        fields = _log_fields(row)
        with suppress(OSError):  # standard error was closed: no reason to reject requests
            self._logger.info("decision_made", **fields)
        if self._sinks:
            event = sink_event(row, fields)
            for sink in self._sinks:
                sink.put(event)
        _update_metrics(decision)
        tracing.record(decision)
        if self._store is None:
            return
        if len(self._queue) >= self._settings.queue:
            metrics.LOG_DROPPED.inc()
            return
        self._queue.append(row)
        if len(self._queue) - self._due >= self._settings.batch:
            self._batch_ready.set()

    async def fullness(self) -> float:
        """The used share of the bound that is nearest: the queue, `log.bytes` or `log.rows`. May raise `StoreError`."""
        shares = [len(self._queue) / self._settings.queue]
        if self._store is not None:
            shares.append((await self._store.decisions.bytes() or 0) / self._log_settings.bytes)
        if self._store is not None and self._log_settings.rows is not None:
            shares.append(await self._store.decisions.count() / self._log_settings.rows)
        return max(shares)

    def receipt(self, decision: Decision) -> str | None:
        """The signed receipt of a decision (`audit.receipts`)."""
        return receipt(self._signer, decision) if self._signer is not None else None

    def digest(self, text: str) -> str:
        """`GENERATION.HMAC`: equal for equal texts while the secret lives; cannot be guessed without it."""
        raw = text.encode("utf-8", "surrogatepass")
        return f"{self._secret.generation}.{hmac.digest(self._secret.value, raw, 'sha256').hex()}"

    def texts_for_log(self, segments: Sequence[Segment], verdict: Verdict) -> list[str]:
        """What `log.prompts` stores of each segment: nothing, the text with findings redacted, or all of it."""
        if self._log_settings.prompts == "none":
            return []
        if self._log_settings.prompts == "redacted":
            return redact_texts(segments, verdict)
        return [segment.text for segment in segments]

    def client_for_log(self, address: str) -> str | None:
        """What `log.client` stores: nothing, a short digest under the log's secret, or the address."""
        if self._log_settings.client == "none" or not address:
            return None
        return address if self._log_settings.client == "address" else self._client_digest(address)

    def _client_digest(self, address: str) -> str:
        """Under a key of its own: a prompt that is an address has another digest."""
        key = hmac.digest(self._secret.value, b"client", "sha256")
        return f"{self._secret.generation}.{hmac.digest(key, address.encode(), 'sha256').hex()}"[:CLIENT_CHARS]

    async def _write_when_due(self) -> None:
        try:
            async with asyncio.timeout(self._settings.flush):
                await self._batch_ready.wait()
        except TimeoutError:
            pass
        self._batch_ready.clear()
        if not await self._write():
            await asyncio.sleep(RETRY_PAUSE)

    async def _write(self) -> bool:
        """Write the rows that wait now, batch after batch. A row leaves the queue once it is written, not before.

        Those that come meanwhile wait for the next time, so that steady traffic is not written a few rows at a time.
        """
        self._due = len(self._queue)
        while self._due and self._store is not None:
            size = min(self._settings.batch, self._due)
            try:
                await self._store.decisions.add([self._queue[index] for index in range(size)])
            except StoreError as error:
                self._note_failure(error)
                return False
            for _ in range(size):
                self._queue.popleft()
            self._due -= size
            self._note_success(size)
            self._rows_since_check += size
            if self._rows_since_check >= CHECK_EVERY:
                await self._enforce_bounds(self._store)
        return True

    async def _enforce_bounds(self, store: Store) -> None:
        """Delete the oldest rows beyond the bounds. The newest stay: other tables may fill the file."""
        self._rows_since_check, deleted = 0, 0
        try:
            if self._log_settings.rows is not None:
                deleted += await store.decisions.keep(self._log_settings.rows)
            while (await store.decisions.bytes() or 0) > self._log_settings.bytes:
                remaining = max(MIN_ROWS, int(KEEP_SHARE * await store.decisions.count()))
                deleted += (trimmed := await store.decisions.keep(remaining))
                if not trimmed:
                    break
        except StoreError as error:
            _log.warning("log_not_trimmed", error=error)  # retried after the next rows
        finally:
            if deleted:
                metrics.LOG_TRIMMED.inc(deleted)
                _log.warning("log_trimmed", rows=deleted)

    def _note_failure(self, error: StoreError) -> None:
        if not self._failing:
            _log.error("log_write_failed", error=error)
        self._failing, self._reason = True, str(error)

    def _note_success(self, size: int) -> None:
        if self._failing:
            _log.info("log_write_recovered", waiting=len(self._queue))
        self._failing = False
        metrics.LOG_WRITTEN.inc(size)

    async def _run_housekeeping(self) -> None:
        """Rotate the secret when due; delete rows older than the retention or beyond the bounds."""
        if self._store is None:
            return
        await self._renew_secret(self._store)
        horizon = datetime.now(UTC) - timedelta(seconds=self._log_settings.retention)
        if deleted := await self._store.decisions.purge(horizon):
            _log.info("log_purged", rows=deleted)
        await self._store.refusals.purge(horizon)
        await self._store.secrets.purge(SECRET, horizon - SECRET_LIFE)
        await self._enforce_bounds(self._store)

    async def _renew_secret(self, store: Store) -> None:
        self._secret = await store.secrets.current(SECRET, datetime.now(UTC), SECRET_LIFE)


def sink_event(row: DecisionRow, fields: Mapping[str, Any]) -> Event:
    """What further receivers get: the fields of the row's log line, its time, and all rules that matched."""
    matched = sorted({str(finding["rule"]) for finding in row.findings or []})
    return {"time": row.at.timestamp(), "event": "decision_made", **fields, "matched": matched}


def _log_fields(row: DecisionRow) -> dict[str, Any]:
    """The metadata of a row, without empty values."""
    fields = {name: value for name in _LOGGED_FIELDS if (value := getattr(row, name)) not in _EMPTY}
    if row.model and not _is_name(row.model):
        fields["model"] = "*"
    if row.findings and (deciding := dict.fromkeys(item["rule"] for item in row.findings if item["decides"])):
        fields["rules"] = " ".join(list(deciding)[:MAX_LOGGED_RULES])
        fields["taxonomy"] = " ".join(_taxonomy(row.findings))
    if failures := [f"{layer['layer']}:{layer['failure']}" for layer in row.layers or () if layer["failure"]]:
        fields["failed_layers"] = " ".join(failures)
    return fields


def _taxonomy(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The identifiers of all findings that decided, without repetitions."""
    deciding = (identifiers(item["rule"], Label(item["label"])) for item in findings if item["decides"])
    return list(dict.fromkeys(each for several in deciding for each in several))


def _is_name(model: str) -> bool:
    """Whether this looks like a model name: otherwise a client could put a prompt into the log."""
    return _NAME.fullmatch(model) is not None


def _counted_action(decision: Decision) -> str:
    """The action, but `refuse` where a request is refused without a scan, or would be in monitor mode.

    A malformed body or an unknown route is no attack, and alerts on blocks are not meant for it.
    """
    is_scan = decision.verdict.action is Action.BLOCK and decision.verdict.failure is None
    return "refuse" if decision.action in {"block", "monitor"} and not is_scan else decision.action


def _update_metrics(decision: Decision) -> None:
    verdict = decision.verdict
    cached_counter(metrics.DECISIONS, decision.entrypoint, _counted_action(decision)).inc()
    cached_histogram(metrics.SCAN_SECONDS, decision.entrypoint).observe(verdict.latency_ms / 1000)
    for label in verdict.threats:
        cached_counter(metrics.THREATS, label).inc()
    for cause in decision.unscanned.split(",") if decision.unscanned else ():
        cached_counter(metrics.UNSCANNED, cause).inc()
    for report in verdict.reports:
        cached_histogram(metrics.LAYER_SECONDS, report.layer).observe(report.elapsed)
        if report.failure:
            cached_counter(metrics.LAYER_FAILURES, report.layer, report.failure).inc()
