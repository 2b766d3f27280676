"""The pages of rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
from dashboard import FINDING, DashboardSite, log_row

from sidecar.dashboard.policies import PAGE
from sidecar.policy import Policy
from sidecar.storage import RuleException, Store


async def test_all_rules_that_run_are_listed_with_their_revision(site: DashboardSite) -> None:
    """By family, with score, status and the number of proofs; titles are text."""
    page = await site.vic.get("/policies")
    assert site.dependencies.policy().revision in page.text
    assert "INJ-1 Cancels the instructions <b>given</b> earlier prompt injection 0.90 block rules en 3 0 0" in page.text
    assert "INJ-2 Calls a function of a spreadsheet prompt injection 0.30 test rules en, de 2 0 0" in page.text
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


def ids(links: list[str]) -> list[str]:
    """The rules that a page links to."""
    return [link.rpartition("/")[2] for link in links if link.startswith("/policies/")]


async def test_rules_are_sorted_by_hits_marks_score_and_id(site: DashboardSite) -> None:
    """Hits lead to their decisions, marks to their exceptions, here and on the page of the rule."""
    now = datetime.now(UTC)
    findings = [{**FINDING, "rule": "INJ-2"}]
    await site.store.decisions.add([log_row(n, findings=findings) for n in range(3)] + [log_row(9)])
    marks = [
        RuleException(f"e{n}", "INJ-1", f"d{n}", "ours", "ada", now, now + timedelta(days=1), None, None)
        for n in range(2)
    ]
    for mark in marks:
        await site.store.exceptions.add(mark)
    expected = {"hits": ["INJ-2", "INJ-1"], "marked": ["INJ-1", "INJ-2"], "score": ["INJ-1", "INJ-2"], "id": None}
    for sort, order in expected.items():
        page = await site.vic.get(f"/policies?sort={sort}")
        assert ids(page.reader.links) == (order or ["INJ-1", "INJ-2"]), sort
        assert 'aria-sort="' in page.body
    assert {"/decisions?rule_id=INJ-2", "/exceptions?rule=INJ-1"} <= set(page.reader.links)
    rows = await site.vic.get("/decisions?rule=INJ-2")
    assert sum(link.startswith("/decisions/dec_") for link in rows.reader.links) == 3
    rule = await site.vic.get("/policies/INJ-1")
    assert "Hits 1 scans , 1 blocked False positives 2 marked , in 2 decisions Score" in rule.text
    assert "ours" in (await site.vic.get("/exceptions?rule=INJ-1")).text
    assert "None of INJ-2" in (await site.vic.get("/exceptions?rule=INJ-2")).text
    assert (await site.vic.get("/policies?sort=luck")).status == 400


async def test_a_rule_shows_what_it_costs_in_false_positives(site: DashboardSite) -> None:
    """Marked decisions as a share of those that it blocked, and the newest of them with their reasons."""
    key, _ = await site.dependencies.keyring.create("shop")
    await site.store.decisions.add([log_row(n) for n in range(8)] + [log_row(9, action="allow")])
    now = datetime.now(UTC)
    for n in range(3):  # two texts of one decision, and another one
        decision, digest = log_row(n // 2).id, f"d{n}"
        end = now + timedelta(days=1)
        mark = RuleException(f"e{n}", "INJ-1", digest, f"<b>ours {n}", "ada", now, end, key.id if n else None, decision)
        await site.store.exceptions.add(mark)
    page = await site.vic.get("/policies/INJ-1")
    assert "Hits 9 scans , 8 blocked" in page.text
    assert "3 marked , in 2 decisions: 25.0 % of the blocked scans" in page.text
    assert "Marked as false positives the newest 3" in page.text
    assert {f"/decisions/{log_row(0).id}", f"/decisions/{log_row(1).id}"} <= set(page.reader.links)
    for words in ("<b>ours 0", "<b>ours 2", "every key", "shop"):
        assert words in page.text
    assert "b" not in page.reader.tags
    blocked = await site.vic.get("/decisions?rule=INJ-1&action=block")
    assert sum(link.startswith("/decisions/dec_") for link in blocked.reader.links) == 8


async def test_many_rules_come_page_by_page(tmp_path: Path) -> None:
    """With the filter and the order in the links; every rule is on exactly one page."""
    store = await Store.open(f"sqlite:///{tmp_path}/rules.db")
    async with dashboard.open_site(dashboard.settings(tmp_path), store, policy=_many(120)) as site:
        link, seen = "/policies?sort=id&status=block", []
        while link:
            page = await site.vic.get(link)
            assert len(ids(page.reader.links)) <= PAGE
            seen += ids(page.reader.links)
            link = next((one for one in page.reader.links if f"offset={len(seen)}" in one), "")
            assert not link or ("sort=id" in link and "status=block" in link)
    await store.close()
    assert seen == [f"INJ-{number}" for number in range(1000, 1120)]


def _many(count: int) -> Policy:
    """A policy of that many rules."""
    rule = {"title": "x", "label": "jailbreak", "score": 0.5, "languages": ["en"], "match": ["x"], "no_match": ["y"]}
    rules = [{**rule, "id": f"INJ-{1000 + number}", "patterns": ["x"]} for number in range(count)]
    return Policy.model_validate({"rules": rules, "revision": "many"})


async def test_a_rule_that_the_settings_change_says_so(tmp_path: Path) -> None:
    """In the list and on its page; the others say nothing."""
    store = await Store.open(f"sqlite:///{tmp_path}/rules.db")
    changed = dashboard.settings(tmp_path, rules={"INJ-1": {"status": "off"}})
    async with dashboard.open_site(changed, store) as site:
        pages = [(await site.vic.get(path)).text for path in ("/policies", "/policies/INJ-1", "/policies/INJ-2")]
    await store.close()
    assert [page.count("off by the settings") for page in pages] == [1, 1, 0]
