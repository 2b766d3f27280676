"""The filter of the list of decisions: read, in words, and as the name of a file."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qsl

import pytest

from sidecar.dashboard.decision_query import FIELDS, MAX_FILE_NAME, file_name, filter_words, link_of, read_filter
from sidecar.dashboard.forms import Form, FormError
from sidecar.storage import Filter

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_every_field_of_a_filter_is_read() -> None:
    """The rule as the beginning of an id, or as exactly one."""
    form = Form(rule="inj", door="api", risk="0.4", failure="encoding", review="marked", layer="none", key="k1")
    assert read_filter(form) == Filter(
        rule_begins="inj", door="api", risk=0.4, failure="encoding", review="marked", layer_used="none", key_id="k1"
    )
    assert read_filter(Form(rule_id="INJ-1")) == Filter(rule="INJ-1")
    assert dict(parse_qsl(link_of(form))) == dict(form)
    assert len(set(FIELDS)) == len(FIELDS)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Each at its field."""
    wrong = Form(since="soon", risk="2", action="x", door="y", rule="x" * 300, q="ok")
    with pytest.raises(FormError) as caught:
        read_filter(wrong)
    assert set(caught.value.problems) == {"since", "risk", "action", "door", "rule"}


@pytest.mark.parametrize(
    "times",
    [
        {"since": "2026-05-02T12:00", "until": "2026-05-01T12:00"},
        {"since": "2026-05-01T12:00", "until": "2026-05-01T12:00"},
        {"range": "day", "until": "2020-01-01T00:00"},
    ],
)
def test_an_end_before_the_beginning_is_an_error(times: dict[str, str]) -> None:
    """Instead of a list without rows, which says nothing."""
    with pytest.raises(FormError) as caught:
        read_filter(Form(times))
    assert caught.value.problems == {"until": "The end lies before the beginning: no decision can lie between them."}


def test_a_filter_is_described_in_words() -> None:
    """With the name of its key, its time and its order as a person would say them."""
    query = "key=k1&range=week&action=block&rule=INJ-1&sort=risk_score&since=2026-05-01T12:00&door=api"
    assert filter_words(query, {"k1": "shop"}) == (
        "key: shop, within the last: 7 days, action: block, rule begins with: INJ-1, order: highest risk first,"
        " from: 2026-05-01 12:00, entry point: api"
    )
    assert filter_words("", {}) == "all decisions"


def test_a_file_is_named_by_its_filter() -> None:
    """In characters that every system takes, and not too long; the order is none of it."""
    form = Form(range="week", action="block", q='a"b/../c\r\n', sort="risk_score")
    assert file_name(form, "csv", NOW) == "decisions_2026-05-01_q-a-b-..-c_range-week_action-block.csv"
    assert file_name(Form(), "jsonl", NOW) == "decisions_2026-05-01.jsonl"
    assert len(file_name(Form(q="x" * 199, model="y" * 199), "csv", NOW)) == MAX_FILE_NAME + len(".csv")
