"""The filter of the scan log, the same on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from storage.test_analytics import NOW, PLAIN

from sidecar.storage import DecisionRow, Filter, RuleException, Store
from sidecar.storage.decision_filter import is_flagged, is_indexed
from sidecar.storage.rollups import is_scan

FINDINGS = [{"rule": "INJ-105", "path": "messages.2.content"}, {"rule": "SMG-1", "path": "messages.0"}]
REQUEST: list[dict[str, Any]] = [
    {"n": 0, "path": "messages.0", "source": "user", "length": 4},
    {"n": 2, "path": "messages.2.content", "source": "untrusted", "length": 9, "tool": "read_file"},
]


def rows() -> list[DecisionRow]:
    """One row of each kind, by id."""
    return [
        replace(PLAIN, id="dec_found", findings=FINDINGS, request=REQUEST, threats="jailbreak", action="block"),
        replace(PLAIN, id="dec_text", text="The harbour opens\nat 100% NOON", model="m1"),
        replace(PLAIN, id="dec_list", segments=0, route="/v1/models"),
        replace(PLAIN, id="dec_path", segments=0, action="block", failure="route_not_allowed", key_id="k1"),
        replace(
            PLAIN, id="dec_probe", segments=0, unscanned="unknown_route", route="/wp-admin", key_id="k1", model="m1"
        ),
        replace(PLAIN, id="dec_bad", segments=0, action="block", failure="malformed"),
        replace(PLAIN, id="dec_media", unscanned="media", recommended="block", action="monitor"),
        replace(
            PLAIN, id="dec_open", segments=0, unscanned="user", route="/v1/chat/completions", key_id="k1", model="m1"
        ),
    ]


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ({"kind": "scan"}, "found text bad media open"),
        ({"kind": "other"}, "list path probe"),
        ({"outcome": "failed"}, "path bad"),
        ({"outcome": "unscanned"}, "probe media open"),
        ({"recommended": "block"}, "media"),
        ({"without": "key"}, "found text list bad media"),
        ({"without": "model"}, "found list path bad media"),
        ({"rule": "INJ-105"}, "found"),
        ({"rule": "INJ-10"}, ""),
        ({"words": "inj-10"}, "found"),
        ({"words": "messages.2"}, "found"),
        ({"words": "Read_File"}, "found"),
        ({"words": "read_"}, ""),
        ({"words": "HARBOUR"}, "text"),
        ({"words": "100%"}, "text"),
        ({"words": "dec_l"}, "list"),
        ({"words": "/V1/chat"}, "open"),
        ({"words": "chat/completions"}, ""),
        ({"words": "rule"}, ""),
        ({"words": "'; DROP TABLE decisions; --\\"}, ""),
        ({"label": "jailbreak"}, "found"),
        ({"action": "block", "kind": "scan"}, "found bad"),
    ],
)
async def test_each_criterion(store: Store, chosen: dict[str, Any], ids: str) -> None:
    """It leaves exactly the rows that match, in the list and in an export."""
    await store.decisions.add(rows())
    found = {row.id.removeprefix("dec_") for row in (await store.decisions.page(Filter(**chosen))).rows}
    assert found == set(ids.split())
    assert {row.id.removeprefix("dec_") for row in await store.decisions.query(Filter(**chosen))} == found


async def test_scans_are_the_same_in_python_and_sql(store: Store) -> None:
    """What the totals count is what the list shows."""
    await store.decisions.add(rows())
    listed = {row.id for row in await store.decisions.query(Filter(kind="scan"))}
    assert listed == {row.id for row in rows() if is_scan(row)}


def test_what_indexes_answer() -> None:
    """A time, a key and a page; and rows that are flagged by definition."""
    assert is_indexed(Filter(since=NOW, until=NOW + timedelta(1), key_id="k1", before=PLAIN))
    assert is_indexed(Filter(action="block", kind="scan", label="jailbreak"))
    assert not any(is_indexed(Filter(**one)) for one in ({"model": "m"}, {"kind": "scan"}, {"action": "allow"}))
    assert not is_indexed(Filter(action="block", rule="R-1"))
    assert all(is_flagged(Filter(**one)) for one in ({"action": "block"}, {"label": "x"}, {"outcome": "failed"}))
    assert not any(is_flagged(one) for one in (Filter(), Filter(action="allow"), Filter(rule="R-1")))


MATCH = {"rule": "INJ-105", "label": "jailbreak", "excepted": False}
REVIEWED = [
    replace(PLAIN, id="dec_api", door="api", risk_score=0.2, failure="encoding", findings=[MATCH]),
    replace(PLAIN, id="dec_mcp", door="mcp", risk_score=0.7, findings=[{**MATCH, "rule": "inj-9", "excepted": True}]),
    replace(PLAIN, id="dec_inline", door="inline", risk_score=0.5, findings=[{**MATCH, "rule": "SMG-1"}]),
]


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ({"door": "api"}, "api"),
        ({"failure": "encoding"}, "api"),
        ({"failure": "encoding", "door": "mcp"}, ""),
        ({"risk": 0.5}, "inline mcp"),
        ({"rule_begins": "inj-"}, "api mcp"),
        ({"rule_begins": "105"}, ""),
        ({"rule_begins": "%"}, ""),
        ({"rule": "INJ-10"}, ""),
        ({"review": "excepted"}, "mcp"),
        ({"review": "marked"}, "inline"),
    ],
)
async def test_each_criterion_of_a_review(store: Store, chosen: dict[str, Any], ids: str) -> None:
    """Entry point, cause, risk, the beginning of a rule, and exceptions; the page counts what it lists."""
    await store.decisions.add(REVIEWED)
    mark = RuleException("e1", "SMG-1", "d", "harmless", "ada", NOW, NOW + timedelta(days=1), decision="dec_inline")
    await store.exceptions.add(mark)
    page = await store.decisions.page(Filter(**chosen), counted=10)
    assert sorted(row.id.removeprefix("dec_") for row in page.rows) == ids.split()
    assert page.matches == len(ids.split())


def test_the_cause_of_a_failure_is_answered_by_the_index_of_flagged_rows() -> None:
    """So is the entry point beside it; a risk, a rule or an exception is looked for in a window of rows."""
    assert is_flagged(Filter(failure="encoding"))
    assert is_indexed(Filter(failure="encoding", door="api"))
    assert not any(is_indexed(Filter(**chosen)) for chosen in ({"door": "api"}, {"risk": 0.5}, {"review": "marked"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("chosen", [{"action": "block"}, {"model": "m"}])
async def test_matches_are_counted_up_to_a_bound(store: Store, chosen: dict[str, Any]) -> None:
    """However many there are, by an index and in a window."""
    rows = [replace(PLAIN, id=f"dec_{number}", action="block", model="m") for number in range(30)]
    await store.decisions.add(rows)
    for counted, matches in ((100, 30), (21, 21)):
        page = await store.decisions.page(Filter(**chosen), limit=5, counted=counted)
        assert (len(page.rows), page.matches) == (5, matches)
