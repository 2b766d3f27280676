"""Twin of benchmarks/calls.py: the steps of one allowed chat request do not grow unnoticed."""

from __future__ import annotations

from pathlib import Path

from benchmarks.calls import configured, measure

CALLS, OBJECTS, CHANGES = 286, 18, 154
"""Current counts with the rules alone, and a margin; the goals are 300, 18 and 60."""


async def test_a_plain_request_takes_no_more_steps_than_today(tmp_path: Path) -> None:
    """Calls, value objects and changes of module, which do not depend on the machine's speed."""
    counts = await measure(configured(str(tmp_path), semantic=False))
    assert 100 < counts.calls.total() <= CALLS
    assert 10 < counts.objects.total() <= OBJECTS
    assert 50 < counts.changes <= CHANGES
