"""The description of the APIs in the frame of the dashboard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dashboard
from aiohttp import ClientSession
from dashboard import DashboardSite

from sidecar.api import openapi
from sidecar.storage import Store


async def test_the_page_is_in_the_menu_and_needs_no_login(site: DashboardSite) -> None:
    """With the menu for those who are logged in, without it for others."""
    assert "/reference" in (await site.vic.get("/")).reader.links
    inside, outside = await site.vic.get("/reference"), await site.stranger.get("/reference")
    assert (inside.status, outside.status) == (200, 200)
    assert "/decisions" in inside.reader.links
    assert "/decisions" not in outside.reader.links


async def test_it_shows_every_route(tmp_path: Path) -> None:
    """As the sidecar serves them, with the headers of every page."""
    store = await Store.open(f"sqlite:///{tmp_path}/api.db")
    deps = dashboard.dependencies(dashboard.settings(tmp_path), store)
    content = openapi.page(frozenset({openapi.ADMIN}))
    serving = dashboard.serve(replace(deps, reference=lambda: content))
    async with serving as base, ClientSession() as session, session.get(f"{base}/reference") as answer:
        text = await answer.text()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    await store.close()
    assert content in text
    assert "POST /api/v1/prompt/scan" in text
