"""The first page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite, log_row

from sidecar.storage import Store


async def fill(store: Store) -> None:
    """A small log of the last hours."""
    now = datetime.now(UTC)
    calm = {"action": "allow", "recommended": "allow", "threats": "", "layer_used": "semantic", "findings": []}
    rows = [log_row(number, at=now - timedelta(minutes=number), latency_ms=number) for number in range(1, 21)]
    rows += [log_row(n, at=now - timedelta(minutes=n), latency_ms=n, model="<b>m", **calm) for n in range(21, 51)]
    await store.decisions.add(rows)


async def test_the_figures_are_those_of_the_log(store: Store, tmp_path: Path) -> None:
    """On every store: totals, labels, layers, models, quantiles, rules; names are text."""
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        await fill(store)
        page = await site.vic.get("/")
        for words in (
            "Scans 50 ",
            "Blocked 20 40.0 %",
            "Median time 25 ms",
            "99 % within 50 ms",
            "prompt injection 20",
            "semantic 30 0",
            "rules 20 20",
            "<b>m 30 0",
            "gpt 20 20",
            "no key 50 20",
            "INJ-1 · Cancels the instructions <b>given</b> earlier 20 20",
        ):
            assert words in page.text
        assert "b" not in page.reader.tags
        assert page.reader.tags.count("script") == 1


@pytest.mark.parametrize("name", ["hour", "day", "week", "month"])
async def test_every_stretch_of_time_has_its_chart_and_its_numbers(site: DashboardSite, name: str) -> None:
    """What was blocked and what was not adds up over the table, whatever the step."""
    await fill(site.store)
    page = await site.vic.get(f"/?range={name}")
    table = page.body.partition("The numbers</summary>")[2].partition("</table>")[0]
    numbers = [int(cell.partition("<")[0]) for cell in table.split('<td class="number">')[1:]]
    assert (sum(numbers[0::2]), sum(numbers[1::2])) == (50, 20)
    assert page.body.count('class="blocked"') > 1


async def test_one_key_can_be_looked_at(site: DashboardSite) -> None:
    """Alone; an unknown one has nothing, and odd values are refused or shown as text."""
    key, _ = await site.dependencies.keyring.create("shop")
    now = datetime.now(UTC)
    await site.store.decisions.add([log_row(1, at=now, key_id=key.id), log_row(2, at=now)])
    assert "Scans 1 " in (await site.vic.get(f"/?key={key.id}")).text
    assert "Scans 0 " in (await site.vic.get("/?key=%3Cscript%3E")).text
    assert (await site.vic.get("/?range=century")).status == 400


async def test_an_empty_log_is_an_empty_page(site: DashboardSite) -> None:
    """Without a division by zero."""
    page = await site.ada.get("/")
    assert page.status == 200
    assert "Nothing in this time" in page.text
