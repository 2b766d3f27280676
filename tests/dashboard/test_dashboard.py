"""The dashboard as a whole: its files, and what is no page."""

from __future__ import annotations

from dashboard import DashboardSite


async def test_style_sheet_and_script_come_from_ourselves(site: DashboardSite) -> None:
    """By address and type, for everybody, and pages name no other source."""
    page = await site.ada.get("/account")
    for name, kind in (("style.css", "text/css"), ("script.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        assert f'"/static/{name}' in page.body
        file = await site.stranger.get(f"/static/{name}")
        assert (file.status, file.headers["Content-Type"].split(";")[0]) == (200, kind)
        assert "Set-Cookie" not in file.headers
    assert "http://" not in page.body
    assert "https://" not in page.body
    assert "style=" not in page.body
    assert " on" + "click" not in page.body


async def test_what_is_no_page_is_a_page_that_says_so(site: DashboardSite) -> None:
    """404 for a path, 405 for a method; in HTML, without the library's words."""
    for visitor in (site.ada, site.stranger):
        assert "There is no such page" in (await visitor.get("/nowhere")).text
        assert (await visitor.get("/static/../config.py")).status == 404
    async with site.ada.session.put(f"{site.base}/users") as answer:
        assert answer.status == 405
        assert answer.content_type == "text/html"
