"""Valid exceptions: false positives that an administrator has marked, each for one rule on one text.

Each replica sees additions and revocations within `REFRESH` seconds. A text is identified by an HMAC under a secret
that all replicas share and that outlives every exception; the digest means nothing outside the store. While the store
does not answer, cached exceptions stay valid until they expire, but for at most `STALE` seconds: after that nothing is
excepted, which blocks more, not less.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sidecar.errors import RequestError, StoreError
from sidecar.storage import RuleException, Store
from sidecar.storage.notices import EVERYTHING
from sidecar.types import Segment
from sidecar.util import logs
from sidecar.util.tasks import Background

SECRET = TOPIC = "exceptions"
SECRET_LIFETIME = timedelta(days=36_500)
REFRESH = 2.0
STALE = 60.0
MAX_LIFETIME = timedelta(days=366)
MAX_REASON_CHARS = 500
_log = logs.get("exemptions")


class RuleExceptions:
    """Cached lookup of excepted rules by text. Call `start` before use and `close` at the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret = b""
        self._by_digest: dict[str, list[RuleException]] = {}
        self._refreshed_at = 0.0
        self._changed = asyncio.Event()
        self._background = Background()

    async def start(self) -> None:
        """Load the secret and the valid exceptions, and keep them fresh. May raise `StoreError`."""
        self._secret = (await self._store.secrets.current(SECRET, datetime.now(UTC), SECRET_LIFETIME)).value
        await self.refresh()
        self._store.notices.subscribe(TOPIC, lambda _: self._changed.set())
        self._background.repeat("exceptions_refresh", self._try_to_refresh, 0.0)

    async def close(self) -> None:
        """Stop refreshing."""
        await self._background.close()

    async def refresh(self) -> None:
        """Reload from the store now. May raise `StoreError`."""
        by_digest: dict[str, list[RuleException]] = {}
        for exception in await self._store.exceptions.valid(datetime.now(UTC)):
            by_digest.setdefault(exception.digest, []).append(exception)
        self._by_digest, self._refreshed_at = by_digest, time.monotonic()

    def digest(self, text: str) -> str:
        """The keyed digest that identifies a text."""
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def rules_for(self, segments: Sequence[Segment], key_ids: Collection[str]) -> tuple[frozenset[str], ...]:
        """The rules excepted for a key with these ids on each segment; empty if there are none at all."""
        if not self._by_digest or time.monotonic() - self._refreshed_at > STALE:
            return ()
        now = datetime.now(UTC)
        rules = tuple(self._rules(segment.text, key_ids, now) for segment in segments)
        return rules if any(rules) else ()

    async def add(
        self,
        rule: str,
        digest: str,
        *,
        lasts: timedelta,
        reason: str,
        author: str,
        key_id: str | None = None,
        decision: str | None = None,
    ) -> RuleException:
        """Except `rule` on the text with this digest, here at once. Raises `RequestError` for a bad argument."""
        if not rule or not digest:
            raise RequestError("An exception needs a rule and the digest of a text.", param="rule")
        if not timedelta() < lasts <= MAX_LIFETIME:
            raise RequestError(f"An exception lasts for at most {MAX_LIFETIME.days} days.", param="lasts")
        if not reason.strip() or len(reason) > MAX_REASON_CHARS:
            raise RequestError(f"An exception needs a reason of 1 to {MAX_REASON_CHARS} characters.", param="reason")
        now, exception_id = datetime.now(UTC), f"exc_{secrets.token_hex(6)}"
        exception = RuleException(exception_id, rule, digest, reason, author, now, now + lasts, key_id, decision)
        await self._store.exceptions.add(exception)
        await self._refresh_everywhere()
        _log.info("exception_added", exception_id=exception_id, rule=rule, key_id=key_id, author=author)
        return exception

    async def revoke(self, exception_id: str, revoked_by: str) -> bool:
        """Revoke, effective at once here. False if there is no such valid exception."""
        revoked = await self._store.exceptions.revoke(exception_id, datetime.now(UTC), revoked_by)
        await self._refresh_everywhere()
        if revoked:
            _log.info("exception_revoked", exception_id=exception_id)
        return revoked

    async def _refresh_everywhere(self) -> None:
        await self.refresh()
        await self._store.notices.publish(TOPIC, EVERYTHING)

    def _rules(self, text: str, key_ids: Collection[str], now: datetime) -> frozenset[str]:
        exceptions = self._by_digest.get(self.digest(text), ())
        return frozenset(
            exception.rule
            for exception in exceptions
            if (exception.key_id is None or exception.key_id in key_ids) and exception.is_valid(now)
        )

    async def _try_to_refresh(self) -> None:
        """Refresh on a change notification, and every `REFRESH` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), REFRESH)
        self._changed.clear()
        try:
            await self.refresh()
        except StoreError as error:
            _log.warning("exceptions_unknown", error=error)
            await asyncio.sleep(REFRESH)
