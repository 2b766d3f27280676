"""Tests of the audit trail on each database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sidecar.storage import Event, Store, exports

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\r\n=cmd()|'x'\x00\u202e'; DROP TABLE audit; --"


async def test_events_are_listed_newest_first_in_pages(store: Store) -> None:
    """In the order of insertion, whatever the clock."""
    for number in range(5):
        await store.audit.add(Event(NOW, "ada", "::1", "key_created", f"key {number}"))
    first = await store.audit.query(limit=3)
    older = await store.audit.query(limit=3, before=first[-1].id)
    assert [event.target for event in (*first, *older)] == [f"key {number}" for number in (4, 3, 2, 1, 0)]


async def test_events_are_filtered_by_actor_and_action(store: Store) -> None:
    """Both filters can be combined; the distinct actions can be listed."""
    for actor, action in (("ada", "key_created"), ("bob", "key_created"), ("ada", "key_revoked")):
        await store.audit.add(Event(NOW, actor, "::1", action))
    events = await store.audit.query(actor="ada", action="key_created")
    assert [(event.actor, event.action) for event in events] == [("ada", "key_created")]
    assert await store.audit.actions() == ["key_created", "key_revoked"]


async def test_hostile_text_is_stored_as_text(store: Store) -> None:
    """Truncated, without NUL, and otherwise unchanged."""
    event = Event(NOW, "ada", "::1", "key_created", HOSTILE, "x" * 5000)
    await store.audit.add(event)
    (events,) = await store.audit.query()
    assert events == replace(event, id=events.id, target=HOSTILE.replace("\x00", "�"), detail="x" * 500)


async def test_events_are_filtered_by_time_and_exported_within_a_bound(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one moment to before the other; a file ends at the bound."""
    for hour in range(6):
        await store.audit.add(Event(NOW + timedelta(hours=hour), "ada", "::1", "x_y", str(hour)))
    times = {"since": NOW + timedelta(hours=1), "until": NOW + timedelta(hours=5)}
    assert [event.target for event in await store.audit.query(**times)] == ["4", "3", "2", "1"]
    lines = b"".join([piece async for piece in exports.export_audit(store.audit, "jsonl", times, 2)]).splitlines()
    assert len(lines) == 4
    monkeypatch.setattr(exports, "MAX_EVENTS", 2)
    assert len([piece async for piece in exports.export_audit(store.audit, "jsonl", times, 2)]) == 1
