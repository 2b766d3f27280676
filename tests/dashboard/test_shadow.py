"""The page of the second policy set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dashboard
from dashboard import NOW, DashboardSite

from sidecar.storage import Disagreement, Store


async def test_disagreements_are_shown_with_both_sides(site: DashboardSite) -> None:
    """What was done, what would have been, by which rules; and how many of each kind."""
    assert "No second policy set" in (await site.vic.get("/shadow")).text
    disagreement = Disagreement("dec_1", NOW, None, "a1", "allow", 0.1, [], "b2", "block", 0.9, ["<i>NEW-1"])
    await site.store.disagreements.add([disagreement])
    page = await site.vic.get("/shadow?revision=b2")
    assert "allow, would block 1" in page.text
    assert "allow 0.10 – block 0.90 <i>NEW-1" in page.text
    assert "i" not in page.reader.tags
    assert "/decisions/dec_1" in page.reader.links
    assert "NEW-1" not in (await site.vic.get("/shadow?revision=other")).text


async def test_many_disagreements_come_page_by_page(site: DashboardSite) -> None:
    """With the revision in the links; each is on exactly one page."""
    rows = [
        Disagreement(f"dec_{n}", NOW, None, "a1", "allow", 0.1, [], f"b{n % 2}", "block", 0.9, []) for n in range(250)
    ]
    await site.store.disagreements.add(rows)
    link, seen = "/shadow?revision=b1", list[str]()
    while link:
        page = await site.vic.get(link)
        seen += [one for one in page.reader.links if one.startswith("/decisions/dec_")]
        link = next((one for one in page.reader.links if "before=" in one and "live" not in one), "")
        assert not link or "revision=b1" in link
    assert (len(seen), len(set(seen))) == (125, 125)
    assert (await site.vic.get("/shadow?before=dec_gone")).status == 404


async def test_an_empty_page_says_which_of_the_two_it_is(site: DashboardSite, tmp_path: Path) -> None:
    """No second policy set, and how to name one; or one that agrees."""
    assert "No second policy set. To try one" in (await site.vic.get("/shadow")).text
    chosen = dashboard.settings(tmp_path, shadow={"policies": [tmp_path / "policy.yaml"]})
    status = replace(site.dependencies.status(), settings=chosen)
    async with dashboard.open_site(chosen, await Store.open(f"sqlite:///{tmp_path}/other.db"), status) as second:
        assert "No disagreement" in (await second.vic.get("/shadow")).text
        await second.store.close()
