"""Changes of settings and rule files in the audit trail and the log.

A reload that changes something is one entry. So is a start with other settings or rules than the last start of any
process on the database, and one whose settings let something else pass than the latest such entry says. With several
workers the first one writes; of replicas that start with the same change one does, and each writes its own reloads.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
from datetime import UTC, datetime

from sidecar.config import Settings
from sidecar.config.changes import record, record_changes, settings_changes, shortened
from sidecar.errors import StoreError
from sidecar.policy.reductions import reductions
from sidecar.storage import Event, Store
from sidecar.util import logs

ACTOR = "settings file"
CHANGED, AT_START = "settings_changed", "protection_at_start"
NOTHING = "as by default"
MAX_DETAIL = 500
"""Characters of an entry's detail."""
_log = logs.get("settings")


class SettingsTrail:
    """Writes the entries of this process. `writes`: if not, changes are only logged.

    `secret`: keys the marks by which values that are not shown are compared.
    """

    def __init__(self, store: Store, secret: bytes, *, writes: bool) -> None:
        self._store, self._writes = store, writes
        self._key = hmac.digest(secret, b"settings", "sha256")

    async def started(self, settings: Settings, revision: str) -> None:
        """Note what differs from the last start, and what lets more pass than the defaults if that is new."""
        if not self._writes:
            return
        await self._compare(settings, revision)
        await self._note_reductions(settings)

    async def _compare(self, settings: Settings, revision: str) -> None:
        values = record(settings, self._key)
        now = {"revision": revision, "settings": values}
        try:
            before = await self._store.last_start.exchange(now, datetime.now(UTC))
        except StoreError as error:
            _log.warning("audit_lost", action=CHANGED, error=error)
            return
        if before is None:
            return
        changes = _revisions(before["revision"], revision) + record_changes(before["settings"], values)
        if changes:
            _log.info(CHANGED, changes=", ".join(changes), at="start")
            await self._add(CHANGED, shortened(changes, MAX_DETAIL), "settings at a start")

    async def _note_reductions(self, settings: Settings) -> None:
        detail = _whole("; ".join(reduction.text for reduction in reductions(settings)) or NOTHING)
        try:
            latest = await self._store.audit.query(actor=ACTOR, action=AT_START, limit=1)
        except StoreError as error:
            _log.warning("audit_lost", action=AT_START, error=error)
            return
        if detail != (latest[0].detail if latest else NOTHING):
            await self._add(AT_START, detail)

    async def changed(self, old: Settings, new: Settings, revisions: tuple[str, str]) -> None:
        """Note what a reload changed; `revisions`: those of the rules before and after."""
        changes = _revisions(*revisions) + settings_changes(old, new)
        if not changes:
            return
        _log.info(CHANGED, changes=", ".join(changes))
        if self._writes:
            await self._add(CHANGED, shortened(changes, MAX_DETAIL))

    async def _add(self, action: str, detail: str, target: str = "settings") -> None:
        event = Event(datetime.now(UTC), ACTOR, socket.gethostname(), action, target, detail)
        try:
            await self._store.audit.add(event)
        except StoreError as error:  # the log has the change, and the reload stands
            _log.warning("audit_lost", action=action, error=error)


def _revisions(before: str, after: str) -> list[str]:
    return [f"policy revision {before} to {after}"] if before != after else []


def _whole(text: str) -> str:
    """A text that fits; of a longer one the beginning and a digest, by which another one is told."""
    if len(text) <= MAX_DETAIL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: MAX_DETAIL - 20]} ... ({digest})"
