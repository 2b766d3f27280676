"""The exceptions that hold now: what somebody has marked as a false positive, for one rule on one text.

Known here within `REFRESH` seconds of being made or revoked anywhere. A text is known by an HMAC under a secret
that all replicas share and that lives as long as an exception may: it means nothing outside the store. While the
store does not answer, what is known goes on to hold until it expires, but for at most `STALE` seconds: after that
nothing is excepted, which refuses more and not less.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sidecar.errors import RequestError, StoreError
from sidecar.storage import RuleException, Store
from sidecar.storage.notices import EVERYTHING
from sidecar.types import Segment
from sidecar.util import logs
from sidecar.util.tasks import Background

SECRET = TOPIC = "exceptions"
FOR_EVER = timedelta(days=36_500)
REFRESH = 2.0
STALE = 60.0
LONGEST = timedelta(days=366)
LONGEST_REASON = 500
_log = logs.get("exemptions")


class Exemptions:
    """Answers whether a rule is excepted on a text. `start` it first; `close` it at the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret = b""
        self._live: dict[str, list[RuleException]] = {}
        self._known_at = 0.0
        self._changed = asyncio.Event()
        self._background = Background()

    async def start(self) -> None:
        """Fetch the secret and what holds, and keep it fresh. May raise `StoreError`."""
        self._secret = (await self._store.secrets.current(SECRET, datetime.now(UTC), FOR_EVER)).value
        await self.refresh()
        self._store.notices.subscribe(TOPIC, lambda _: self._changed.set())
        self._background.repeat("exceptions_refresh", self._try_to_refresh, 0.0)

    async def close(self) -> None:
        """Stop asking."""
        await self._background.close()

    async def refresh(self) -> None:
        """Ask the store now. May raise `StoreError`."""
        live: dict[str, list[RuleException]] = {}
        for one in await self._store.exceptions.valid(datetime.now(UTC)):
            live.setdefault(one.digest, []).append(one)
        self._live, self._known_at = live, time.monotonic()

    def digest(self, text: str) -> str:
        """What a text is known by."""
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def of(self, segments: Sequence[Segment], key_id: str | None) -> tuple[frozenset[str], ...]:
        """For each segment the rules that are excepted on it for this key; empty if there are none at all."""
        if not self._live or time.monotonic() - self._known_at > STALE:
            return ()
        now = datetime.now(UTC)
        found = tuple(self._rules(segment.text, key_id, now) for segment in segments)
        return found if any(found) else ()

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
        if not timedelta() < lasts <= LONGEST:
            raise RequestError(f"An exception lasts for at most {LONGEST.days} days.", param="lasts")
        if not reason.strip() or len(reason) > LONGEST_REASON:
            raise RequestError(f"An exception needs a reason of 1 to {LONGEST_REASON} characters.", param="reason")
        now, made = datetime.now(UTC), f"exc_{secrets.token_hex(6)}"
        one = RuleException(made, rule, digest, reason, author, now, now + lasts, key_id, decision)
        await self._store.exceptions.add(one)
        await self._tell()
        _log.info("exception_added", exception=made, rule=rule, key_id=key_id)
        return one

    async def revoke(self, exemption_id: str, by: str) -> bool:
        """Revoke, here at once. False: there is none that could be."""
        gone = await self._store.exceptions.revoke(exemption_id, datetime.now(UTC), by)
        await self._tell()
        if gone:
            _log.info("exception_revoked", exception=exemption_id)
        return gone

    async def _tell(self) -> None:
        await self.refresh()
        await self._store.notices.publish(TOPIC, EVERYTHING)

    def _rules(self, text: str, key_id: str | None, now: datetime) -> frozenset[str]:
        known = self._live.get(self.digest(text), ())
        return frozenset(one.rule for one in known if one.key_id in {None, key_id} and one.is_valid(now))

    async def _try_to_refresh(self) -> None:
        """When word comes that something has changed, and from time to time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), REFRESH)
        self._changed.clear()
        try:
            await self.refresh()
        except StoreError as error:
            _log.warning("exceptions_unknown", error=error)
            await asyncio.sleep(REFRESH)
