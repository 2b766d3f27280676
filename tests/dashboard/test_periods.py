"""Time ranges and the links to the rows in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest

from sidecar.dashboard.forms import Form
from sidecar.dashboard.periods import DAY, HOUR, MAX_COLUMNS, MAX_LENGTH, MINUTE, Period, read_period
from sidecar.errors import RequestError

NOW = datetime(2026, 5, 1, 12, 34, 56, tzinfo=UTC)


def test_a_named_range_ends_now() -> None:
    """With the whole step that contains the present; the day without a choice."""
    assert read_period(Form(), NOW).name == "day"
    hour = read_period(Form(range="hour"), NOW)
    assert (hour.until, hour.until - hour.since, hour.step) == (NOW.replace(minute=35, second=0), HOUR, MINUTE)
    assert hour.query(key="k1", live=None) == "range=hour&key=k1"


@pytest.mark.parametrize(
    ("hours", "step"),
    [
        (0.5, MINUTE),
        (4, 5 * MINUTE),
        (5, 5 * MINUTE),
        (30, HOUR),
        (24 * 7, 3 * HOUR),
        (24 * 30, 12 * HOUR),
        (24 * 300, 7 * DAY),
    ],
)
def test_a_free_range_has_whole_steps_and_few_columns(hours: float, step: timedelta) -> None:
    """From an hour on, its ends are whole hours, which the totals answer."""
    since = datetime(2026, 2, 1, 10, 7, tzinfo=UTC)
    until = since + timedelta(hours=hours)
    period = read_period(Form(since=since.isoformat(), until=until.isoformat()), NOW)
    assert period.step == step
    assert period.since <= since < until <= period.until
    assert (period.until - period.since) / step <= MAX_COLUMNS
    assert not any(moment.timestamp() % step.total_seconds() for moment in (period.since, period.until))


def test_one_end_is_enough() -> None:
    """Until now, or the day before an end."""
    assert read_period(Form(since="2026-05-01T12:00"), NOW).until >= NOW
    period = read_period(Form(until="2026-04-01T12:00"), NOW)
    assert (period.since, period.until) == (datetime(2026, 3, 31, 12, tzinfo=UTC), datetime(2026, 4, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "form",
    [
        Form(range="century"),
        Form(since="soon"),
        Form(since="2026-05-02T12:00"),
        Form(since="2026-05-01T12:00", until="2026-05-01T12:00"),
        Form(since="0001-01-01T00:00"),
        Form(until="0001-01-01T00:00"),
        Form(since="9999-12-01T00:00", until="9999-12-31T23:59"),
    ],
)
def test_what_is_no_range_is_refused(form: Form) -> None:
    """With the name of a field, and without an error of arithmetic."""
    with pytest.raises(RequestError) as caught:
        read_period(form, NOW)
    assert caught.value.param in {"range", "since", "until"}


def test_links_lead_to_the_rows_of_a_range_or_of_one_step() -> None:
    """With the criteria that are set; the shortest step leads to its decisions, others to their overview."""
    since = datetime(2026, 5, 1, tzinfo=UTC)
    period = Period(since, since + DAY, HOUR)
    assert period.rows(key="", label="jailbreak") == (
        "/decisions?since=2026-05-01T00%3A00&until=2026-05-02T00%3A00&label=jailbreak"
    )
    assert period.zoom(since, key="k1") == "/?since=2026-05-01T00%3A00&until=2026-05-01T01%3A00&key=k1"
    minute = Period(since, since + HOUR, MINUTE)
    assert period.zoom(since, page="/trends") == "/trends?since=2026-05-01T00%3A00&until=2026-05-01T01%3A00"
    assert minute.zoom(since) == "/decisions?since=2026-05-01T00%3A00&until=2026-05-01T00%3A01"


def test_a_range_has_one_before_one_around_and_one_after_it() -> None:
    """Of the same length, and twice as long; of a range that ends now there is none after it."""
    day = Period(datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC), HOUR)
    assert {name: parse_qsl(query)[:2] for name, query in day.around().items()} == {
        "Earlier": [("since", "2026-04-30T00:00"), ("until", "2026-05-01T00:00")],
        "Zoom out": [("since", "2026-04-30T12:00"), ("until", "2026-05-02T12:00")],
        "Later": [("since", "2026-05-02T00:00"), ("until", "2026-05-03T00:00")],
    }
    named = read_period(Form(range="day"), NOW).around(key="k1")
    assert list(named) == ["Earlier", "Zoom out"]
    assert dict(parse_qsl(named["Zoom out"]))["until"] == "2026-05-01T13:00"
    assert all(query.endswith("key=k1") for query in named.values())


def test_no_link_leads_beyond_what_is_shown() -> None:
    """Neither beyond the longest range, nor beyond the calendar."""
    longest = Period(NOW - MAX_LENGTH, NOW, DAY)
    assert list(longest.around()) == ["Earlier", "Later"]
    assert Period(datetime(9999, 12, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), DAY).around().keys() == {
        "Earlier"
    }
