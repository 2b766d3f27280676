"""Changes of settings and rule files in the audit trail and the log.

A reload that changes something is one entry, and a start is one if what reduces the protection by settings is not what
the latest such entry says. With several workers the first one writes; each replica writes its own, with its host name.
"""

from __future__ import annotations

import hashlib
import socket
from datetime import UTC, datetime

from sidecar.config import Settings
from sidecar.config.changes import settings_changes, shortened
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
    """Writes the entries of this process. `writes`: if not, changes are only logged."""

    def __init__(self, store: Store, *, writes: bool) -> None:
        self._store, self._writes = store, writes

    async def started(self, settings: Settings) -> None:
        """Note what lets more pass than the defaults, unless the last start found the same."""
        if not self._writes:
            return
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
        changes = [f"policy revision {revisions[0]} to {revisions[1]}"] if revisions[0] != revisions[1] else []
        changes += settings_changes(old, new)
        if not changes:
            return
        _log.info(CHANGED, changes=", ".join(changes))
        if self._writes:
            await self._add(CHANGED, shortened(changes, MAX_DETAIL))

    async def _add(self, action: str, detail: str) -> None:
        event = Event(datetime.now(UTC), ACTOR, socket.gethostname(), action, "settings", detail)
        try:
            await self._store.audit.add(event)
        except StoreError as error:  # the log has the change, and the reload stands
            _log.warning("audit_lost", action=action, error=error)


def _whole(text: str) -> str:
    """A text that fits; of a longer one the beginning and a digest, by which another one is told."""
    if len(text) <= MAX_DETAIL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: MAX_DETAIL - 20]} ... ({digest})"
