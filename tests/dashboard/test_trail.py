"""The page of the audit trail."""

from __future__ import annotations

from datetime import UTC, datetime

from dashboard import DashboardSite

from sidecar.storage import Event

HOSTILE = "<script>alert(1)</script>\r\n=cmd()|'x'\x00\u202e"


async def test_hostile_text_is_shown_harmlessly(site: DashboardSite) -> None:
    """Escaped, and every hidden character as a box."""
    await site.store.audit.add(Event(datetime.now(UTC), HOSTILE, HOSTILE, "x_y", HOSTILE, HOSTILE))
    page = await site.ada.get("/audit")
    assert page.reader.tags.count("script") == 1
    assert "<script>alert(1)</script> U+000D U+000A =cmd()" in page.text
    assert not {"\u202e", "\x00", "\r"} & set(page.body)


async def test_entries_are_filtered_and_paged(site: DashboardSite) -> None:
    """Who and what; older entries are behind a link that keeps the filter."""
    for number in range(150):
        await site.store.audit.add(Event(datetime.now(UTC), "bot", "::1", "thing_done", f"thing {number}."))
    first = await site.ada.get("/audit?actor=bot&action=thing_done")
    assert "thing 149." in first.text
    assert "thing 49." not in first.text
    older = next(link for link in first.reader.links if "before=" in link)
    second = await site.ada.get(older)
    assert "thing 49." in second.text
    assert "thing 50." not in second.text
    assert "No entries" in (await site.ada.get("/audit?actor=nobody")).text


async def test_an_odd_page_is_refused(site: DashboardSite) -> None:
    """The place to go on from is a number."""
    assert (await site.ada.get("/audit?before=x")).status == 400
    assert (await site.ada.get("/audit?before=99999999999999999999")).status == 400
