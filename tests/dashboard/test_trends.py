"""The page of figures over time."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite, Page, log_row
from sqlalchemy import update

from sidecar.storage import Store
from sidecar.storage.schema import hourly

LAYERS = [{"layer": "rules", "elapsed_ms": 0.5}, {"layer": "semantic", "elapsed_ms": 30}]
CALM = {"action": "allow", "recommended": "allow", "threats": "", "findings": [], "layer_used": "semantic"}


async def fill(store: Store, key: str | None = None) -> None:
    """Scans of the last hours, half of which the second layer read; and what is no scan."""
    now = datetime.now(UTC)
    rows = [log_row(n, at=now - timedelta(minutes=n), latency_ms=n, layers=LAYERS[:1], key_id=key) for n in range(20)]
    rows += [
        log_row(n, at=now - timedelta(minutes=n), latency_ms=n, layers=LAYERS, key_id=key, **CALM)
        for n in range(20, 40)
    ]
    rows.append(log_row(99, at=now, threats="jailbreak pii_detected", layers=LAYERS[:1], latency_ms=900, key_id=key))
    rows.append(log_row(98, at=now, segments=0, layers=LAYERS, key_id=key))
    await store.decisions.add(rows)


@pytest.mark.parametrize("query", ["range=hour", "range=day", "range=month"])
async def test_threats_latency_and_costs_have_their_figures(store: Store, tmp_path: Path, query: str) -> None:
    """On every store, over minutes and over hours."""
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        await fill(store)
        page = await site.vic.get(f"/trends?{query}")
        for words in (
            "prompt injection 20",
            "jailbreak 1",
            "token smuggling 0 None in this time",
            "rules 41 100.0 % 20.5 ms 0.5 ms",
            "semantic 20 48.8 % 600.0 ms 30.0 ms",
        ):
            assert words in page.text, words
        assert "llm judge 0" not in page.text
        assert page.body.count('class="chart"') == 1 + 3 + 1 + 2
        assert page.body.count('class="curve') == 2


def numbers(page: Page) -> dict[str, int]:
    """The links to decisions with the numbers that they stand on, without latencies."""
    found = re.findall(r'<a href="(/decisions\?[^"]+)">([\d,]+)</a>', page.body)
    return {html.unescape(link): int(number.replace(",", "")) for link, number in found}


@pytest.mark.parametrize("query", ["range=hour", "range=day", "range=day&key={}", "since={}&until={}"])
async def test_every_number_leads_to_its_rows(site: DashboardSite, query: str) -> None:
    """As many as it says: of a threat, of a layer that ran, in a step and in all."""
    key, _ = await site.dependencies.keyring.create("shop")
    await fill(site.store, key.id)
    now = datetime.now(UTC)
    moments = [(now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M") for minutes in (-70, 1)]
    page = await site.vic.get("/trends?" + query.format(*(moments if "since" in query else [key.id])))
    links = numbers(page)
    assert sum("ran=" in link for link in links) > 2
    assert sum("label=" in link for link in links) > 2
    chosen = list(links.items())[:4] + [item for item in links.items() if "ran=" in item[0] or item[1] > 1]
    for link, number in dict(chosen).items():
        rows = await site.vic.get(link)
        assert sum(one.startswith("/decisions/dec_") for one in rows.reader.links) == number, link


async def test_columns_and_steps_lead_to_their_time(site: DashboardSite) -> None:
    """Of scans to the same page of this time, of a threat to its decisions; of latency to the slowest."""
    await fill(site.store)
    page = await site.vic.get("/trends?range=week")
    zoomed = next(link for link in page.reader.links if link.startswith("/trends?since="))
    assert "Scans" in (await site.vic.get(zoomed)).text
    assert [link for link in page.reader.links if "sort=latency_ms" in link]
    around = [link for link in page.reader.links if link.startswith("/trends?since=") and "until=" in link]
    assert len(around) > 2
    assert (await site.vic.get("/trends?range=x")).status == 400


async def test_a_month_is_read_from_the_totals(site: DashboardSite) -> None:
    """Rows are not counted anew; what is older than the totals of layers is said not to be there."""
    await fill(site.store)
    async with site.store._database.write() as connection:
        await connection.execute(update(hourly).values(scans=hourly.c.scans * 50))
    assert "prompt injection 1,000" in (await site.vic.get("/trends?range=month")).text
    later = int(datetime.now(UTC).timestamp()) // 3600 + 2
    site.store.decisions._rollups._first_hour_of_costs = later
    page = await site.vic.get("/trends?range=month")
    assert datetime.fromtimestamp(later * 3600, UTC).strftime("Known from %Y-%m-%d %H:%M") in page.text
    assert "Known from" not in (await site.vic.get("/trends?range=hour")).text


async def test_an_empty_log_is_an_empty_page(site: DashboardSite) -> None:
    """Without a division by zero; names in an address are text."""
    for query in ("", "?range=hour", "?key=%3Cscript%3E"):
        page = await site.ada.get(f"/trends{query}")
        assert page.status == 200
        assert "Nothing in this time" in page.text
        assert page.reader.tags.count("script") == 1


async def test_a_minute_alone_and_unscanned_scans_have_their_marks(site: DashboardSite) -> None:
    """A point where no line leads through, and the columns of what was forwarded unscanned, with their decisions."""
    now = datetime.now(UTC)
    await site.store.decisions.add([log_row(0, at=now - timedelta(minutes=30), latency_ms=7, unscanned="deadline")])
    page = await site.vic.get("/trends?range=hour")
    assert page.body.count("<circle") == 2
    assert "Forwarded unscanned 1" in page.text
    link = next(link for link in page.reader.links if "outcome=unscanned" in link)
    assert "dec_" in (await site.vic.get(link)).body
