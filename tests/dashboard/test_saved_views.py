"""Lists of decisions by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite, Visitor, log_row

from sidecar.dashboard.saved_views import PATH
from sidecar.storage import MAX_VIEWS, Store

QUERY = "range=day&label=prompt_injection&action=block&sort=risk_score"


async def save(visitor: Visitor, name: str, query: str = QUERY, **fields: str) -> dashboard.Page:
    """Save a view with the form of the list."""
    return await visitor.post(PATH, {"name": name, "query": query, **fields}, page="/account")


async def test_a_list_is_saved_opened_renamed_and_deleted(site: DashboardSite) -> None:
    """With filter, time and order, from the form on the list; its address outlives its name."""
    now = datetime.now(UTC)
    await site.store.decisions.add(
        [log_row(1, at=now), log_row(2, at=now - timedelta(days=2)), log_row(3, at=now, action="allow")]
    )
    page = await site.vic.get(f"/decisions?{QUERY}")
    form = next(form for form in page.reader.forms if form["action"] == PATH)
    assert (form["query"], "shared" in form) == (QUERY, False)
    assert (await save(site.vic, " Attacks of today ")).location == f"/decisions?{QUERY}"
    (view,) = await site.store.views.list("vic")
    assert (view.name, view.owner, view.author) == ("Attacks of today", "vic", "vic")

    listed = await site.vic.get(PATH)
    assert (
        "within the last: 24 hours, threat: prompt_injection, action: block, order: highest risk first" in listed.text
    )
    link = f"{PATH}/{view.id}"
    assert link in listed.reader.links
    target = (await site.vic.get(link)).location
    rows = await site.vic.get(target)
    assert [one for one in rows.reader.links if "/decisions/dec_" in one] == [f"/decisions/{log_row(1).id}?{QUERY}"]
    assert f'href="{link}" aria-current="true">Attacks of today' in rows.body
    assert "Save this view" not in rows.text

    assert (await site.vic.post(f"{link}/rename", {"name": "Blocked"}, page=PATH)).location == f"{PATH}?done=renamed"
    assert "Blocked" in (await site.vic.get("/decisions")).text
    assert (await site.vic.get(link)).location == target
    assert (await site.vic.post(f"{link}/delete", page=PATH)).location == f"{PATH}?done=deleted"
    assert (await site.vic.get(link)).status == 404
    assert {event.action for event in await site.store.audit.query(actor="vic")} >= {
        *("view_saved", "view_renamed", "view_deleted"),
    }


async def test_views_are_for_their_owner_or_for_all(site: DashboardSite) -> None:
    """A viewer sees shared views and changes none; nobody sees those of others."""
    await save(site.ada, "Mine")
    await save(site.ada, "Ours", shared="1")
    mine, ours = await site.store.views.list("ada")
    page = await site.vic.get(PATH)
    assert ("Ours" in page.text, "Mine" in page.text) == (True, False)
    assert (await site.vic.get(f"{PATH}/{ours.id}")).status == 303
    assert (await site.vic.get(f"{PATH}/{mine.id}")).status == 404
    for action in ("rename", "delete"):
        assert (await site.vic.post(f"{PATH}/{ours.id}/{action}", {"name": "x"}, page="/account")).status == 403
        assert (await site.vic.post(f"{PATH}/{mine.id}/{action}", {"name": "x"}, page="/account")).status == 404
    assert f"{PATH}/{ours.id}/delete" not in page.body
    assert (await save(site.vic, "Theirs", shared="1")).status == 403
    assert await site.store.views.list("vic") == [ours]


async def test_another_replica_has_the_same_views(site: DashboardSite, tmp_path: Path) -> None:
    """They are in the database and nowhere else."""
    await save(site.ada, "Ours", shared="1")
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db")
    async with dashboard.serve(dashboard.dependencies(dashboard.settings(tmp_path), store)) as base:
        visitor = Visitor(base)
        site.visitors.append(visitor)
        await visitor.login("ada")
        assert "Ours" in (await visitor.get("/decisions")).text
    await store.close()


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("", QUERY, "Give it a name"),
        ("x" * 65, QUERY, "At most 64 characters"),
        ("Mine", QUERY, "of this name already"),
    ],
)
async def test_what_is_wrong_with_a_name_is_said_beside_it(
    site: DashboardSite, name: str, query: str, words: str
) -> None:
    """The form keeps what was entered, and the list that it is about."""
    await save(site.ada, "Mine")
    page = await save(site.ada, name, query, shared="1" if not name else "")
    assert page.status in {400, 409}
    assert words in page.text
    assert next(form for form in page.reader.forms if form["action"] == PATH)["query"] == query
    assert len(await site.store.views.list("ada")) == 1


async def test_only_a_list_of_decisions_is_saved(site: DashboardSite) -> None:
    """What its page would not read is refused, and what it does not know is left out; views have a number."""
    assert (await save(site.ada, "Odd", "label=x")).status == 400
    assert (await save(site.ada, "Odd", "next=//evil.example&action=block&before=dec_1")).location == (
        "/decisions?action=block"
    )
    for number in range(1, MAX_VIEWS):
        assert (await save(site.ada, str(number))).status == 303
    page = await save(site.ada, "more")
    assert (page.status, f"There are {MAX_VIEWS} views already" in page.text) == (409, True)


async def test_a_name_is_text(site: DashboardSite) -> None:
    """Whatever it holds."""
    await save(site.ada, "<script>alert(1)</script>\u202e", shared="1")
    for path in (PATH, "/decisions"):
        page = await site.vic.get(path)
        assert page.reader.tags.count("script") == 1
        assert "\u202e" not in page.body
        assert "<script>alert(1)</script>" in page.text


async def test_two_views_do_not_share_a_name(site: DashboardSite) -> None:
    """Neither an own one and a shared one, nor in other letters; the form of the new name keeps what was typed."""
    await save(site.ada, "Blocked", shared="1")
    assert (await save(site.vic, "blocked")).status == 409
    await save(site.vic, "Mine")
    view = next(each for each in await site.store.views.list("vic") if each.name == "Mine")
    page = await site.vic.post(f"{PATH}/{view.id}/rename", {"name": "BLOCKED"}, page=PATH)
    assert (page.status, "There is a view of this name already." in page.text) == (409, True)
    assert 'value="BLOCKED"' in page.body
    assert (await site.vic.post(f"{PATH}/{view.id}/rename", {"name": "mine"}, page=PATH)).status == 303


async def test_a_view_is_updated_with_the_present_filter(site: DashboardSite) -> None:
    """From the form on the list; a shared one by admins alone."""
    await save(site.vic, "Mine")
    await save(site.ada, "Ours", shared="1")
    ours, mine = sorted(await site.store.views.list("vic"), key=lambda view: view.name, reverse=True)
    page = await site.vic.get("/decisions?action=allow")
    (form,) = [form for form in page.reader.forms if form["action"].endswith("/update")]
    assert (form["action"], form["query"]) == (f"{PATH}/{mine.id}/update", "action=allow")
    assert (await site.vic.post(form["action"], {"query": form["query"]}, page=PATH)).location == (
        "/decisions?action=allow"
    )
    assert [view.query for view in await site.store.views.list("vic") if view.id == mine.id] == ["action=allow"]
    assert (await site.vic.post(f"{PATH}/{ours.id}/update", {"query": ""}, page=PATH)).status == 403
    assert (await site.vic.post(f"{PATH}/{mine.id}/update", {"query": "label=x"}, page=PATH)).status == 400
