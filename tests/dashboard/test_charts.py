"""Figures become shapes that fit the drawing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dashboard.charts import BOTTOM, LEFT, SMALL, TOP, WIDE, Size, lines, nice, over_time, share, time_range
from sidecar.storage import Bucket

NOW = datetime(2026, 5, 1, 12, 34, 56, 789, tzinfo=UTC)
HOUR = timedelta(hours=1)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=60))
def test_columns_stay_inside_and_keep_their_proportions(numbers: list[tuple[int, int]]) -> None:
    """Whatever the numbers: within the axes, blocked at the bottom."""
    buckets = [Bucket(NOW + HOUR * index, sum(pair), pair[1]) for index, pair in enumerate(numbers)]
    for size in (WIDE, SMALL):
        for column in over_time(buckets, HOUR, size).columns:
            assert LEFT <= column.x <= column.x + column.width <= size.width
            assert TOP - 0.1 <= column.top <= column.split + 0.1 <= column.bottom + 0.1 <= size.height - BOTTOM + 0.1


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**9)), max_size=60))
def test_curves_stay_inside_and_break_where_nothing_is_known(values: list[int | None]) -> None:
    """Each value is a point within the axes, on a line or, between two gaps, alone; each gap begins a new line."""
    chart = lines([NOW + HOUR * index for index in range(len(values))], {"p50": values}, HOUR, SMALL)
    points = [tuple(map(float, point.split())) for point in re.findall(r"[ML]([\d.]+ [\d.]+)", chart.paths["p50"])]
    lines_through = len(points)
    points += chart.points["p50"]
    assert len(points) == sum(value is not None for value in values)
    assert all(LEFT <= x <= SMALL.width and TOP - 0.1 <= y <= SMALL.height - BOTTOM + 0.1 for x, y in points)
    starts = [n for n, value in enumerate(values) if value is not None and (n == 0 or values[n - 1] is None)]
    alone = [n for n in starts if n + 1 == len(values) or values[n + 1] is None]
    assert (len(chart.points["p50"]), len(points) - lines_through) == (len(alone), len(alone))
    assert chart.paths["p50"].count("M") == len(starts) - len(alone)
    assert [one.values["p50"] for one in chart.slots] == values


def test_a_curve_through_two_values_is_a_line_between_them() -> None:
    """In the middle of their steps, as high as they are."""
    chart = lines(
        [NOW, NOW + HOUR], {"p50": [0, 100], "p95": [None, None]}, HOUR, Size(LEFT + 100, TOP + BOTTOM + 50, 3)
    )
    assert chart.paths == {"p50": f"M{LEFT + 25.0} {TOP + 50.0}L{LEFT + 75.0} {float(TOP)}", "p95": ""}
    assert chart.points == {"p50": [], "p95": []}


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
