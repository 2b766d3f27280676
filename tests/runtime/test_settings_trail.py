"""Twin of sidecar/runtime/settings_trail.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from inline_proxy import eventually
from support import ONE_RULE

from sidecar.config import Settings
from sidecar.runtime.app import Sidecar
from sidecar.runtime.settings_trail import SettingsTrail
from sidecar.storage import Event, Store
from sidecar.util import logs

MONITOR = Settings.model_validate({"mode": "monitor"})
REVISIONS = ("r1", "r1")
SECRET = b"s" * 32


async def entries(store: Store) -> list[tuple[str, str]]:
    """The entries about settings, the oldest first."""
    events: list[Event] = await store.audit.query(actor="settings file")
    return [(event.action, event.detail) for event in reversed(events)]


async def test_a_reload_that_changes_something_is_one_entry(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """With the names and both values; of several workers one writes, and all log."""
    logs.configure("json", "info")
    for writes in (True, False):
        trail = SettingsTrail(store, SECRET, writes=writes)
        await trail.changed(Settings(), MONITOR, REVISIONS)
        await trail.changed(MONITOR, MONITOR, REVISIONS)
        assert "mode enforce to monitor" in "".join(capsys.readouterr())
    await SettingsTrail(store, SECRET, writes=True).changed(MONITOR, Settings(), ("r1", "r2"))
    assert await entries(store) == [
        ("settings_changed", "mode enforce to monitor"),
        ("settings_changed", "policy revision r1 to r2, mode monitor to enforce"),
    ]


async def test_a_start_is_an_entry_if_the_protection_is_another(store: Store) -> None:
    """The defaults at the first start are none; nor is the same once more."""
    trail, monitor = SettingsTrail(store, SECRET, writes=True), "mode: monitor forwards everything, attacks too"
    for settings in (Settings(), MONITOR, MONITOR, Settings(), Settings()):
        await trail.started(settings, "r1")
    await SettingsTrail(store, SECRET, writes=False).started(MONITOR, "r1")
    assert await entries(store) == [
        ("settings_changed", "mode enforce to monitor"),
        ("protection_at_start", monitor),
        ("settings_changed", "mode monitor to enforce"),
        ("protection_at_start", "as by default"),
    ]


async def test_a_start_names_each_setting_that_changed_since_the_last_one(store: Store) -> None:
    """Those that reduce nothing, too; of what may be secret only that it changed, and nothing of it is stored."""
    values = {"log": {"prompts": "full"}, "alerts": {"blocks": 5, "url": "https://hooks.example/canary-5501"}}
    chosen = Settings.model_validate(values)
    await SettingsTrail(store, SECRET, writes=True).started(Settings(), "r1")
    for _ in range(2):
        await SettingsTrail(store, SECRET, writes=True).started(chosen, "r2")
    values["alerts"]["url"] = "https://hooks.example/canary-5502"
    await SettingsTrail(store, SECRET, writes=True).started(Settings.model_validate(values), "r2")
    changes = "policy revision r1 to r2, log.prompts none to full, alerts.url changed, alerts.blocks 20 to 5"
    assert await entries(store) == [("settings_changed", changes), ("settings_changed", "alerts.url changed")]
    assert {event.target for event in await store.audit.query()} == {"settings at a start"}
    assert "canary" not in str(await store.last_start.exchange({}, datetime.now(UTC)))


async def test_a_real_start_is_compared_with_the_last_one(tmp_path: Path) -> None:
    """A server that is started again with other settings, without a reload."""
    values: dict[str, Any] = {**ONE_RULE, "listen": {"port": 0}, "admin": {"port": 0}}
    values["store"] = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    for changes in ({}, {}, {"log": {"prompts": "full"}}):
        async with Sidecar(Settings.model_validate(values | changes)) as running:
            written = await entries(running.store)
    assert [entry for entry in written if entry[0] == "settings_changed"] == [
        ("settings_changed", "log.prompts none to full")
    ]


async def test_a_running_server_notes_what_a_reload_changed(tmp_path: Path) -> None:
    """From the file to the trail; a reload without a change is none."""
    values: dict[str, Any] = {**ONE_RULE, "listen": {"port": 0}, "admin": {"port": 0}}
    values["store"] = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    current = Settings.model_validate(values)
    async with Sidecar(current, read=lambda: current) as running:
        running.reload()
        await eventually(lambda: running._reloader.state.generation == 2, 30)
        current = Settings.model_validate({**values, "mode": "monitor"})
        running.reload()
        await eventually(lambda: running._reloader.state.generation == 3, 30)
        deadline = monotonic() + 30
        while len(await entries(running.store)) < 2 and monotonic() < deadline:  # noqa: ASYNC110 - written beside the reload
            await asyncio.sleep(0.05)
        assert (await entries(running.store))[-1] == ("settings_changed", "mode enforce to monitor")
