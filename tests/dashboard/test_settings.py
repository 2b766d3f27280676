"""The page of settings."""

from __future__ import annotations

from pathlib import Path

import dashboard

from sidecar.config import Settings
from sidecar.dashboard.settings import Row, profiles_of, rows_of
from sidecar.storage import Store

VALUES = {
    "log": {"prompts": "full", "retention": "90d"},
    "alerts": {"url": "https://hooks.example/canary-3321"},
    "answers": {"canary": "canary-3322"},
    "upstream": {"url": "https://canary-3323.example/v1"},
    "failure": {"all": "allow"},
    "profiles": {"shop": {"threshold": 0.9, "pii": "redact"}},
}


async def test_the_settings_in_force_are_shown_without_secrets(tmp_path: Path, store: Store) -> None:
    """To every user, with the defaults where they differ, what profiles change, and the lines on failure."""
    async with dashboard.open_site(dashboard.settings(tmp_path, **VALUES), store) as site:
        page = await site.vic.get("/settings")
        assert page.status == 200
        for words in (
            "log.prompts full none",
            "log.retention 90d 30d",
            "failure.all allow block",
            "responses off the same",
            "alerts.url (not shown) none",
            "threshold 0.6 (scan.threshold) to 0.9",
            "pii flag (pii) to redact",
            "answers.canary (not shown) none",
        ):
            assert words in page.text, words
        assert "canary-" not in page.body
        assert "/settings" in page.reader.links
        assert (await site.stranger.get("/settings")).status == 303


def test_settings_as_by_default_have_no_other_value() -> None:
    """And there are no profiles."""
    assert {row.default for row in rows_of(Settings())} == {None}
    assert profiles_of(Settings()) == {}
    monitor = rows_of(Settings.model_validate({"mode": "monitor"}))
    assert [row for row in monitor if row.default] == [Row("mode", "monitor", "enforce")]
