"""Parts of a long list."""

from __future__ import annotations

import pytest

from sidecar.dashboard.forms import Form
from sidecar.dashboard.paging import MAX_OFFSET, PAGE, Paging, read_offset
from sidecar.errors import RequestError


@pytest.mark.parametrize("total", [0, 1, PAGE, PAGE + 1, 3 * PAGE])
def test_the_parts_of_a_list_are_the_list(total: int) -> None:
    """From link to link every row is on exactly one of them, and back again."""
    part, rows = Paging(0, total, {"rule": "a&b", "key": ""}), list[int]()
    while True:
        rows += range(part.offset, part.end)
        if part.later is None:
            break
        assert part.later == f"rule=a%26b&offset={part.offset + PAGE}"
        following = Paging(part.offset + PAGE, total, part.filters)
        assert following.earlier == f"rule=a%26b&offset={part.offset}"
        part = following
    assert rows == list(range(total))
    assert Paging(0, total, {}).earlier is None


def test_an_offset_is_a_bounded_number() -> None:
    """Zero without one."""
    assert (read_offset(Form()), read_offset(Form(offset="50"))) == (0, 50)
    for text in ("-1", "x", str(MAX_OFFSET + 1)):
        with pytest.raises(RequestError):
            read_offset(Form(offset=text))
