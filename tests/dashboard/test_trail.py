"""The page of the audit trail."""

from __future__ import annotations

import csv
import json
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


async def test_entries_are_filtered_by_time(site: DashboardSite) -> None:
    """From one moment to before the other; what is no time is refused."""
    for hour in (10, 11, 12):
        await site.store.audit.add(Event(datetime(2026, 5, 1, hour, tzinfo=UTC), "bot", "::1", "x_y", f"at {hour}."))
    page = await site.ada.get("/audit?since=2026-05-01T11:00&until=2026-05-01T12:00")
    assert [f"at {hour}." in page.text for hour in (10, 11, 12)] == [False, True, False]
    assert any("since=2026-05-01T11%3A00" in link and "form=csv" in link for link in page.reader.links)
    assert (await site.ada.get("/audit?since=yesterday")).status == 400


async def test_entries_are_exported_as_they_are_filtered(site: DashboardSite) -> None:
    """As CSV without formulas, or JSON Lines; of many pages each entry once; the export is an entry itself."""
    for number in range(1_100):
        await site.store.audit.add(Event(datetime.now(UTC), "bot", "::1", "x_y", "=cmd()", str(number)))
    answer = await site.ada.get("/audit/export?actor=bot&form=jsonl")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.jsonl"'
    rows = [json.loads(line) for line in answer.body.splitlines()]
    assert [int(row["detail"]) for row in rows] == list(range(1_099, -1, -1))
    table = list(csv.reader((await site.ada.get("/audit/export?actor=bot")).body.splitlines()))
    assert (len(table), table[0][:4], table[1][4]) == (1_101, ["at", "actor", "address", "action"], "'=cmd()")
    newest = (await site.store.audit.query(limit=1))[0]
    assert (newest.actor, newest.action, newest.target, newest.detail) == ("ada", "audit_exported", "csv", "actor=bot")
    assert (await site.oda.get("/audit/export")).status == 403
