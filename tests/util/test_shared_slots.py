"""Tests of the memory that worker processes share."""

from __future__ import annotations

import os
import signal

import pytest

from sidecar.util.shared_slots import SharedSlots


def test_each_slot_holds_what_was_written_last() -> None:
    """Slots do not touch each other; one that was never written is empty."""
    slots = SharedSlots(3)
    slots.write(0, b"first")
    slots.write(2, b"x" * 1000)
    slots.write(0, b"second")
    assert [slots.read(number) for number in range(3)] == [b"second", b"", b"x" * 1000]


def test_a_content_that_does_not_fit_is_refused() -> None:
    """The previous content and the other slots stay."""
    slots = SharedSlots(2, half_bytes=32)
    slots.write(0, b"a" * 24)
    slots.write(1, b"b")
    with pytest.raises(ValueError, match="do not fit"):
        slots.write(0, b"c" * 25)
    assert [slots.read(0), slots.read(1)] == [b"a" * 24, b"b"]


def test_another_process_reads_whole_contents_while_one_writes_and_is_killed() -> None:
    """A child writes without pause until it is killed: every read, during and after that, is one of its contents."""
    slots = SharedSlots(1)
    child = os.fork()
    if not child:
        number = 0
        while True:
            number += 1
            slots.write(0, bytes([number % 250 + 1]) * (10_000 + number % 7))
    try:
        seen = set()
        while len(seen) < 50:
            content = slots.read(0)
            assert len(set(content)) <= 1
            seen.add(content)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(set(slots.read(0))) == 1
