"""Twin of sidecar/runtime/protection.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sidecar.config import Settings
from sidecar.errors import StoreError
from sidecar.observability.metrics import REGISTRY
from sidecar.policy.reductions import REASONS
from sidecar.runtime.app import Sidecar
from sidecar.runtime.protection import Protection
from sidecar.storage import ApiKey
from sidecar.util import logs

KEY = ApiKey("8XWMibO0", "team-a", "production", datetime.now(UTC), mode="monitor")


def gauge() -> dict[str, float]:
    """The reasons with a value, as the metric has them."""
    values = {r: REGISTRY.get_sample_value("sidecar_protection_reduced", {"reason": r}) or 0.0 for r in REASONS}
    return {reason: value for reason, value in values.items() if value}


async def test_the_metric_follows_settings_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """Each new one is logged once, and its end; while the store is away the keys are as they were."""
    settings, keys, away = Settings(), [KEY, replace(KEY, id="other")], False

    async def read() -> Sequence[ApiKey]:
        if away:
            raise StoreError("away")
        return keys

    logs.configure("json", "info")
    protection = Protection(lambda: settings, read)
    await protection.look()
    assert gauge() == {"keys": 2.0}
    settings, away = Settings.model_validate({"mode": "monitor"}), True
    await protection.look()
    assert gauge() == {"keys": 2.0, "mode": 1.0}
    assert [one.reason for one in protection.latest()] == ["mode", "keys", "keys"]
    settings, away, keys = Settings(), False, []
    await protection.look()
    assert gauge() == {}
    output = capsys.readouterr()
    lines = output.out + output.err
    assert (lines.count("protection_reduced"), lines.count("protection_restored")) == (3, 3)


async def test_a_server_publishes_it_from_its_start(tmp_path: Path) -> None:
    """By its settings and by the keys in its store."""
    store = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    values = {"listen": {"port": 0}, "admin": {"port": 0}, "store": store, "scan": {"threshold": 1}}
    layers = {"layers": {"semantic": {"enabled": False}}}
    async with Sidecar(Settings.model_validate({**values, **layers})) as running:
        assert gauge() == {"threshold": 1.0, "layers": 1.0}
        await running.keyring.create("team-a", environment="production", mode="monitor")
        await running._protection.look()
        assert gauge() == {"threshold": 1.0, "layers": 1.0, "keys": 1.0}
