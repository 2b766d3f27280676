"""The first page."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dashboard
import pytest
from dashboard import DashboardSite, log_row
from sqlalchemy import update

from sidecar.dashboard.refresh import LIVE_SECONDS
from sidecar.storage import Store
from sidecar.storage.analytics import RULE_ROWS
from sidecar.storage.schema import hourly


def tile_link(page: dashboard.Page, title: str) -> str:
    """The link on the number of a tile."""
    return html.unescape(page.body.partition(f"<dt>{title}</dt>")[2].partition('href="')[2].partition('"')[0])


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
            "Median latency 25 ms",
            "p99 latency 50 ms",
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
    cells = [cell.partition("</td>")[0] for cell in table.split('<td class="number">')[1:]]
    numbers = [int(re.sub("<[^>]*>", "", cell)) for cell in cells]
    assert (sum(numbers[0::2]), sum(numbers[1::2])) == (50, 20)
    assert page.body.count('class="blocked"') > 1


async def test_a_month_is_read_from_the_totals(store: Store, tmp_path: Path) -> None:
    """On every store: all figures of the page but those of the last part of an hour; rows are not counted anew."""
    now = datetime.now(UTC)
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        await store.decisions.add([log_row(number, at=now - timedelta(days=10)) for number in range(5)])
        assert "Scans 5 " in (await site.vic.get("/?range=month")).text
        async with store._database.write() as connection:
            await connection.execute(update(hourly).values(scans=hourly.c.scans + 1000))
        page = await site.vic.get("/?range=month")
        for words in ("Scans 1,005 ", "prompt injection 1,005", "rules 1,005 5", "gpt 1,005 5", "no key 1,005 5"):
            assert words in page.text, words


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


async def test_only_scans_count_as_scans(site: DashboardSite) -> None:
    """A list of models and a path that is not served neither raise nor lower the share of blocked scans."""
    now = datetime.now(UTC)
    other = {"segments": 0, "findings": [], "threats": "", "door": "inline"}
    await site.store.decisions.add(
        [
            log_row(1, at=now),
            log_row(2, at=now, action="allow", recommended="allow", threats=""),
            log_row(3, at=now, route="/v1/models", action="allow", recommended="allow", **other),
            log_row(4, at=now, route="/docs", failure="route_not_allowed", **other),
        ]
    )
    for query in ("", "?range=hour"):
        page = await site.vic.get(f"/{query}")
        for words in ("Scans 2 ", "Blocked 1 50.0 %", "Could not scan 0", "Other requests 2 no scans", "gpt 2 1"):
            assert words in page.text, (query, words)


@pytest.mark.parametrize("query", ["range=hour", "range=week", "since={}&until={}", "range=day&key={key}"])
async def test_every_number_leads_to_its_rows(site: DashboardSite, query: str) -> None:
    """The decisions behind a link are as many as the number that it stands on, of the same time and key."""
    key, _ = await site.dependencies.keyring.create("shop")
    now = datetime.now(UTC)
    await fill(site.store)
    odd = {"segments": 0, "action": "allow", "recommended": "allow", "threats": "", "findings": []}
    await site.store.decisions.add(
        [
            log_row(100, at=now - timedelta(minutes=2), key_id=key.id, failure="deadline", model=None),
            log_row(101, at=now - timedelta(minutes=3), key_id=key.id, unscanned="media", action="monitor"),
            log_row(102, at=now - timedelta(minutes=4), key_id=key.id, **odd),
            log_row(103, at=now - timedelta(days=40), key_id=key.id),
        ]
    )
    moments = [(now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M") for minutes in (-70, 1)]
    page = await site.vic.get("/?" + query.format(*moments, key=key.id))
    numbers = re.findall(r'<a href="(/decisions\?[^"]+)">([\d,]+)</a>(?! <small>ms)', page.body)
    assert len(numbers) > 15
    for link, number in dict.fromkeys(numbers):
        rows = await site.vic.get(html.unescape(link))
        found = sum(address.startswith("/decisions/dec_") for address in rows.reader.links)
        assert found == int(number), link


async def test_the_page_loads_itself_again_if_asked(site: DashboardSite) -> None:
    """By a header, without counting as use of the session; the link keeps range and key."""
    page = await site.vic.get("/?range=week&key=abc")
    link = next(link for link in page.reader.links if "live=1" in link)
    assert link == "/?range=week&key=abc&live=1"
    assert "Refresh" not in page.headers
    assert (await site.vic.get(link)).headers["Refresh"] == str(LIVE_SECONDS)


async def test_the_range_of_a_key_names_it(site: DashboardSite) -> None:
    """By its name; by the id where the key was deleted."""
    await site.ada.post("/keys", {"name": "team-a", "environment": "production"})
    (key,) = await site.store.keys.list()
    assert "of key team-a , from" in (await site.vic.get(f"/?key={key.id}")).text.replace("team-a,", "team-a ,")
    assert "of key nYde49iV" in (await site.vic.get("/?key=nYde49iV")).text


async def test_details_of_a_key_are_those_of_its_newest_scans(store: Store, tmp_path: Path) -> None:
    """Beyond some number the page says since when, and its numbers lead to as many decisions; totals are of all."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    old = {"key_id": "aaaaaaaa", "model": "old"}
    await store.decisions.add([log_row(n, at=hour - timedelta(days=9), **old) for n in range(9)])
    for first in range(100, RULE_ROWS + 100, 500):
        await store.decisions.add([log_row(first + n, at=hour, key_id="aaaaaaaa") for n in range(500)])
    rows, scans = f"{RULE_ROWS:,}", f"{RULE_ROWS + 9:,}"
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        page = await site.vic.get("/?range=month&key=aaaaaaaa")
        for words in (
            f"Scans {scans} ",
            f"prompt injection {rows} ",
            f"gpt {rows} {rows}",
            f"aaaaaaaa {scans} {scans}",
        ):
            assert words in page.text
        assert f"newest {rows} scans, since {hour:%Y-%m-%d %H:%M}" in page.text
        assert "old 9" not in page.text
        links = [html.unescape(link) for link in page.reader.links if "label=prompt_injection" in link]
        assert all(f"since={hour:%Y-%m-%dT%H}%3A00" in link for link in links)
        assert links
        assert "newest" not in (await site.vic.get("/?range=month")).text
        assert "old 9 9" in (await site.vic.get("/?range=month")).text


async def test_an_empty_log_offers_a_first_request(site: DashboardSite) -> None:
    """A line to paste, until there is a decision."""
    page = await site.vic.get("/")
    assert "No scan yet" in page.text
    assert "/api/v1/prompt/scan" in page.text
    await site.store.decisions.add([log_row()])
    assert "No scan yet" not in (await site.vic.get("/")).text


@pytest.mark.parametrize("path", ["/", "/trends"])
async def test_a_time_that_ends_before_it_begins_comes_back_in_its_form(site: DashboardSite, path: str) -> None:
    """With what was typed, and what is wrong at its field."""
    page = await site.vic.get(f"{path}?since=2026-05-02T00:00&until=2026-05-01T00:00")
    assert page.status == 400
    assert "The end must lie after the beginning" in page.text
    assert 'value="2026-05-02T00:00"' in page.body


async def test_the_number_of_failed_scans_leads_to_them(site: DashboardSite) -> None:
    """To those of the same time and key, and to no others."""
    key, _ = await site.dependencies.keyring.create("shop")
    now, failed = datetime.now(UTC), {"failure": "deadline"}
    await site.store.decisions.add(
        [
            log_row(1, at=now - timedelta(minutes=2), key_id=key.id, **failed),
            log_row(2, at=now - timedelta(minutes=3), key_id=key.id),
            log_row(3, at=now - timedelta(minutes=4), **failed),
            log_row(4, at=now - timedelta(days=2), key_id=key.id, **failed),
        ]
    )
    page = await site.vic.get(f"/?range=hour&key={key.id}")
    assert "Could not scan 1" in page.text
    rows = await site.vic.get(tile_link(page, "Could not scan"))
    listed = [urlsplit(link).path for link in rows.reader.links if link.startswith("/decisions/dec_")]
    assert listed == [f"/decisions/{log_row(1).id}"]


async def test_a_latency_leads_to_the_slowest_scans(site: DashboardSite) -> None:
    """Of the same time and key, slowest first, from both tiles and from every row of the table."""
    key, _ = await site.dependencies.keyring.create("shop")
    now = datetime.now(UTC)
    mine = [log_row(n, at=now - timedelta(minutes=n), key_id=key.id, latency_ms=n) for n in (2, 4, 3)]
    elsewhere = [log_row(5, at=now - timedelta(days=2), key_id=key.id), log_row(6, at=now - timedelta(minutes=1))]
    await site.store.decisions.add([*mine, *elsewhere])
    page = await site.vic.get(f"/?range=hour&key={key.id}")
    links = [html.unescape(link) for link in re.findall(r'<a href="([^"]+)">\d+ ms</a>', page.body)]
    assert len(links) > 2
    for link in [*links, *(tile_link(page, title) for title in ("Median latency", "p99 latency"))]:
        rows = await site.vic.get(link)
        listed = [urlsplit(link).path for link in rows.reader.links if link.startswith("/decisions/dec_")]
        assert listed == [f"/decisions/{log_row(n).id}" for n in (4, 3, 2)], link


async def test_the_most_frequent_threats_come_first(site: DashboardSite) -> None:
    """Whatever the order of the labels."""
    frequency = {"pii_detected": 4, "token_smuggling": 3, "jailbreak": 2, "prompt_injection": 1}
    threats = [label for label, count in frequency.items() for _ in range(count)]
    now = datetime.now(UTC)
    await site.store.decisions.add([log_row(n, at=now, threats=label) for n, label in enumerate(threats)])
    table = (await site.vic.get("/")).body.partition("<h2>Threats</h2>")[2].partition("</table>")[0]
    listed = re.findall(r'<th scope="row">([^<]+)</th>', table)
    assert listed == [*(label.replace("_", " ") for label in frequency), "system prompt extraction"]


async def test_the_buttons_beside_the_ranges_move_the_time(site: DashboardSite) -> None:
    """By its length, or to twice of it; page, team and key stay the same."""
    moved = {
        "Earlier": ("2026-04-30T00:00", "2026-05-01T00:00"),
        "Zoom out": ("2026-04-30T12:00", "2026-05-02T12:00"),
        "Later": ("2026-05-02T00:00", "2026-05-03T00:00"),
    }
    for path in ("/", "/trends"):
        page = await site.vic.get(f"{path}?since=2026-05-01T00:00&until=2026-05-02T00:00&team=a%26b&key=nYde49iV")
        buttons = dict(re.findall(r'<a class="button quiet small" href="([^"]+)">([^<]+)</a>', page.body))
        links = {words: html.unescape(link) for link, words in buttons.items() if words in moved}
        assert links.keys() == moved.keys()
        for words, (since, until) in moved.items():
            expected = {"since": [since], "until": [until], "team": ["a&b"], "key": ["nYde49iV"]}
            assert (urlsplit(links[words]).path, parse_qs(urlsplit(links[words]).query)) == (path, expected)
            shown = f"{since.replace('T', ' ')}:00 to {until.replace('T', ' ')}:00"
            assert shown in (await site.vic.get(links[words])).text
