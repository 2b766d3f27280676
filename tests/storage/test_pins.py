"""Tests of the pinned tools of MCP servers, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

from sidecar.storage import Pin, Store, state_of

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
PINS = [Pin("notes", "add", "a1", "a1", NOW), Pin("notes", "find", "f1", "f1", NOW)]


async def test_pins_are_listed_by_server_and_tool(store: Store) -> None:
    """Of one server or of all; storing one again changes nothing."""
    other = Pin("mail", "send", "s1", "s1", NOW)
    for pins in ([*PINS, other], PINS):
        await store.pins.add(pins)
    assert await store.pins.query() == [other, *PINS]
    assert await store.pins.query("notes") == PINS
    assert await store.pins.query("notes", "find") == PINS[1:]
    assert await store.pins.query("mail", "find") == []


async def test_no_pin_is_left_out(store: Store) -> None:
    """However many there are: a server whose pins are not read would be pinned anew."""
    pins = [Pin(f"s{number // 1_000:02}", f"t{number % 1_000:03}", "a", "a", NOW) for number in range(10_001)]
    await store.pins.add(pins)
    assert len(await store.pins.query()) == len(pins)


async def test_drift_is_what_differs_from_the_pinned_definition(store: Store) -> None:
    """Changed, gone, and come later."""
    await store.pins.add([*PINS, Pin("notes", "drop", None, "d1", NOW, NOW)])
    await store.pins.see("notes", {"add": "a2", "find": None}, NOW)
    assert {pin.tool: pin.drift for pin in await store.pins.query()} == {
        "add": "changed",
        "drop": "added",
        "find": "removed",
    }


async def test_accepting_pins_the_latest_definitions(store: Store) -> None:
    """Of one tool, then of the server: what is gone is deleted, what came later is pinned."""
    await store.pins.add([*PINS, Pin("notes", "drop", None, "d1", NOW, NOW)])
    await store.pins.see("notes", {"add": "a2", "find": None}, NOW)
    assert await store.pins.accept("notes", "add", NOW) == 1
    assert await store.pins.accept("notes", None, NOW) == 2
    assert [(pin.tool, pin.digest, pin.drift) for pin in await store.pins.query()] == [
        ("add", "a2", None),
        ("drop", "d1", None),
    ]
    assert await store.pins.accept("mail", None, NOW) == 0


async def test_a_change_after_the_look_is_not_accepted(store: Store) -> None:
    """Only the state that was seen is pinned."""
    await store.pins.add(PINS)
    await store.pins.see("notes", {"add": "a2"}, NOW)
    seen = state_of(await store.pins.query("notes"))
    await store.pins.see("notes", {"add": "a3"}, NOW)
    assert await store.pins.accept("notes", None, NOW, seen=seen) == 0
    assert await store.pins.accept("notes", None, NOW, seen=state_of(await store.pins.query("notes"))) == 1


async def test_forgetting_a_server_deletes_its_pins(store: Store) -> None:
    """The others stay."""
    await store.pins.add([*PINS, Pin("mail", "send", "s1", "s1", NOW)])
    assert await store.pins.forget("notes") == 2
    assert [pin.server for pin in await store.pins.query()] == ["mail"]
