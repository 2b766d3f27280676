"""Growth of processor time with size: ratios measured in one run, so that a slow or busy machine changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

FACTOR = 8
"""How much larger the larger input is: quadratic work takes 64 times as long."""
LEEWAY = 3
RUNS = 3


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Work on an input `FACTOR` times larger takes at most about `FACTOR` times as long."""
    assert _seconds(work, FACTOR * size) < LEEWAY * FACTOR * _seconds(work, size)


def assert_constant(work: Callable[[int], object], size: int) -> None:
    """Work on an input `FACTOR` times larger takes about as long."""
    assert _seconds(work, FACTOR * size) < LEEWAY * _seconds(work, size)


def _seconds(work: Callable[[int], object], size: int) -> float:
    """Processor time of the fastest run."""
    taken = []
    for _ in range(RUNS):
        begun = time.process_time()
        work(size)
        taken.append(time.process_time() - begun)
    return min(taken)
