"""The pages of rules."""

from __future__ import annotations

from dashboard import DashboardSite


async def test_all_rules_that_run_are_listed_with_their_revision(site: DashboardSite) -> None:
    """By family, with score, status and the number of proofs; titles are text."""
    page = await site.vic.get("/policies")
    assert site.dependencies.policy().revision in page.text
    assert "INJ-1 Cancels the instructions <b>given</b> earlier 0.90 block rules en 3 0 0" in page.text
    assert "INJ-2 Calls a function of a spreadsheet 0.30 test rules en, de 2 0 0" in page.text
    assert "b" not in page.reader.tags


async def test_a_filter_leaves_what_was_asked_for(site: DashboardSite) -> None:
    """By text, family and status."""
    for chosen, expected in (("text=SPREAD", ["INJ-2"]), ("status=block", ["INJ-1"]), ("label=jailbreak", [])):
        page = await site.vic.get(f"/policies?{chosen}")
        assert [link.rpartition("/")[2] for link in page.reader.links if "/policies/" in link] == expected
    assert (await site.vic.get("/policies?label=x")).status == 400


async def test_a_rule_shows_its_patterns_and_proofs(site: DashboardSite) -> None:
    """And an unknown one is not found."""
    page = await site.vic.get("/policies/INJ-1")
    for words in (
        "ignore all previous instructions",
        "How do I ignore previous commits",
        "Pay no heed <script>alert(1)</script>",
        "OWASP LLM01",
        "rules, by patterns",
        "direct, indirect",
    ):
        assert words in page.text
    assert page.reader.tags.count("script") == 1
    assert "never decides" in (await site.vic.get("/policies/INJ-2")).text
    assert (await site.vic.get("/policies/INJ-9")).status == 404
