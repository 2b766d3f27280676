"""The audit trail on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from sidecar.storage import Event, Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\r\n=cmd()|'x'\x00\u202e'; DROP TABLE audit; --"


async def test_entries_come_back_the_newest_first_page_by_page(store: Store) -> None:
    """In the order of writing, whatever the clock says."""
    for number in range(5):
        await store.audit.add(Event(NOW, "ada", "::1", "key_created", f"key {number}"))
    first = await store.audit.query(limit=3)
    rest = await store.audit.query(limit=3, before=first[-1].id)
    assert [event.target for event in (*first, *rest)] == [f"key {number}" for number in (4, 3, 2, 1, 0)]


async def test_entries_are_found_by_who_and_what(store: Store) -> None:
    """Both filters together; the kinds there are can be listed."""
    for actor, action in (("ada", "key_created"), ("bob", "key_created"), ("ada", "key_revoked")):
        await store.audit.add(Event(NOW, actor, "::1", action))
    found = await store.audit.query(actor="ada", action="key_created")
    assert [(event.actor, event.action) for event in found] == [("ada", "key_created")]
    assert await store.audit.actions() == ["key_created", "key_revoked"]


async def test_hostile_text_is_kept_as_text(store: Store) -> None:
    """Bounded, without NUL, and otherwise as it was written."""
    event = Event(NOW, "ada", "::1", "key_created", HOSTILE, "x" * 5000)
    await store.audit.add(event)
    (found,) = await store.audit.query()
    assert found == replace(event, id=found.id, target=HOSTILE.replace("\x00", "�"), detail="x" * 500)
