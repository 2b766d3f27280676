"""The page of the second policy set."""

from __future__ import annotations

from dashboard import NOW, DashboardSite

from sidecar.storage import Disagreement


async def test_disagreements_are_shown_with_both_sides(site: DashboardSite) -> None:
    """What was done, what would have been, by which rules; and how many of each kind."""
    assert "No disagreement" in (await site.vic.get("/shadow")).text
    disagreement = Disagreement("dec_1", NOW, None, "a1", "allow", 0.1, [], "b2", "block", 0.9, ["<i>NEW-1"])
    await site.store.disagreements.add([disagreement])
    page = await site.vic.get("/shadow?revision=b2")
    assert "allow, would block 1" in page.text
    assert "allow 0.10 – block 0.90 <i>NEW-1" in page.text
    assert "i" not in page.reader.tags
    assert "/decisions/dec_1" in page.reader.links
    assert "NEW-1" not in (await site.vic.get("/shadow?revision=other")).text
