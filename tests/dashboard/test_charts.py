"""Figures become shapes that fit the drawing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dashboard.charts import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, nice, over_time, share, time_range
from sidecar.storage import Bucket

NOW = datetime(2026, 5, 1, 12, 34, 56, 789, tzinfo=UTC)
HOUR = timedelta(hours=1)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=60))
def test_columns_stay_inside_and_keep_their_proportions(numbers: list[tuple[int, int]]) -> None:
    """Whatever the numbers: within the axes, blocked at the bottom."""
    buckets = [Bucket(NOW + HOUR * index, sum(pair), pair[1]) for index, pair in enumerate(numbers)]
    for column in over_time(buckets, HOUR).columns:
        assert LEFT <= column.x <= column.x + column.width <= WIDTH
        assert TOP - 0.1 <= column.top <= column.split + 0.1 <= column.bottom + 0.1 <= HEIGHT - BOTTOM + 0.1


def test_axes_have_few_and_even_marks() -> None:
    """Hours within a day, days beyond it; no data is an empty chart."""
    chart = over_time([Bucket(NOW + HOUR * index, index, 0) for index in range(24)], HOUR)
    assert [mark.text for mark in chart.values] == ["0", "20", "40"]
    assert [mark.text for mark in chart.times] == ["12:34", "16:34", "20:34", "00:34", "04:34", "08:34"]
    days = over_time([Bucket(NOW + 24 * HOUR * index, 0, 0) for index in range(3)], 24 * HOUR)
    assert [mark.text for mark in days.times] == ["May 01", "May 02", "May 03"]
    assert over_time([], HOUR).columns == []


@pytest.mark.parametrize(("most", "top"), [(0, 2), (2, 2), (3, 4), (9, 10), (10, 10), (11, 20), (41, 50), (999, 1000)])
def test_the_top_of_an_axis_is_an_even_number(most: int, top: int) -> None:
    """And never far above what is shown."""
    assert nice(most) == top


def test_a_stretch_ends_with_the_step_that_now_lies_in() -> None:
    """Whole steps, so that columns do not change their borders from one look to the next."""
    since, until = time_range(NOW, 24 * HOUR, HOUR)
    assert until == datetime(2026, 5, 1, 13, tzinfo=UTC)
    assert until - since == 24 * HOUR


def test_a_share_of_nothing_is_nothing() -> None:
    """No division by zero."""
    assert (share(1, 3), share(0, 0)) == (33.3, 0.0)
