"""A running dashboard for every test of its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import dashboard
import pytest

from sidecar.storage import Store


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[dashboard.DashboardSite]:
    """A dashboard on SQLite with an admin and a viewer."""
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db")
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as opened:
        yield opened
    await store.close()
