"""Pages that load themselves again."""

from __future__ import annotations

import pytest
from dashboard import DashboardSite

from sidecar.dashboard.refresh import LIVE_SECONDS, toggle_link

PAGES = ("/", "/trends", "/policies", "/exceptions", "/shadow", "/mcp", "/audit", "/keys", "/alerts")


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_of_figures_refreshes_if_asked(site: DashboardSite, path: str) -> None:
    """By a header; its link turns that on and off."""
    page = await site.ada.get(path)
    assert "Refresh" not in page.headers
    link = next(link for link in page.reader.links if link.endswith("live=1"))
    live = await site.ada.get(link)
    assert live.headers["Refresh"] == str(LIVE_SECONDS)
    assert "Stop refreshing" in live.text
    assert path in live.reader.links


def test_the_link_keeps_the_query() -> None:
    """All of it but the message of a change."""
    assert toggle_link("/mcp", {"show": "drift", "done": "accepted"}) == "/mcp?show=drift&live=1"
    assert toggle_link("/mcp", {"show": "a&b", "live": "1"}) == "/mcp?show=a%26b"
    assert toggle_link("/mcp", {"live": "1"}) == "/mcp"
    assert toggle_link("/keys/\u202e\x00", {"live": "1"}) == "/keys/%E2%80%AE%00"


async def test_a_form_that_was_sent_leads_to_its_page(site: DashboardSite) -> None:
    """Not to the address of the form, which is no page."""
    key, _ = await site.dependencies.keyring.create("shop")
    await site.dependencies.keyring.revoke(key.id)
    page = await site.ada.post(f"/keys/{key.id}/rotate", page="/keys")
    assert "/keys?live=1" in page.reader.links
