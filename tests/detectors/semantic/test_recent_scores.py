"""Twin of sidecar/detectors/semantic/recent_scores.py."""

from __future__ import annotations

import numpy as np

from sidecar.detectors.semantic.cascade import WindowScore
from sidecar.detectors.semantic.recent_scores import ENTRY_BYTES, ScoreCache
from sidecar.detectors.semantic.windows import Window

SCORE = WindowScore(np.zeros(5, np.float32))


def window(text: str, *ids: int) -> Window:
    """A window of these tokens."""
    return Window(ids, 0, len(text), text)


def test_the_key_does_not_depend_on_the_position() -> None:
    """Its place in the text does not matter; its tokens, its text, its channel and the stage do."""
    cache = ScoreCache()
    key = cache.key(b"first", window("calm", 4), 0)
    cache.put(key, SCORE)
    assert cache.get(cache.key(b"first", Window((4,), 7, 11, "calm"), 0)) is SCORE
    others = [
        cache.key(b"second", window("calm", 4), 0),
        cache.key(b"first", window("calm", 4), 1),
        cache.key(b"first", window("calm", 5), 0),
        cache.key(b"first", window("calm "), 0),
    ]
    assert [cache.get(other) for other in others] == [None] * 4


def test_no_two_processes_know_a_window_by_the_same() -> None:
    """Keys are keyed digests, so the cache does not reveal texts."""
    first, second = (ScoreCache().key(b"first", window("calm", 4), 0) for _ in range(2))
    assert first != second


def test_the_oldest_use_goes_first_and_features_weigh() -> None:
    """The bound is in bytes; what was asked for again stays."""
    cache = ScoreCache(3 * ENTRY_BYTES)
    keys = [cache.key(b"first", window(str(n), n), 0) for n in range(5)]
    for key in keys[:3]:
        cache.put(key, SCORE)
    cache.get(keys[0])
    cache.put(keys[3], SCORE)
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True, False]
    cache.put(keys[4], WindowScore(SCORE.logits, np.zeros(ENTRY_BYTES // 4 - 1, np.float32)))
    assert [cache.get(key) is not None for key in keys] == [False, False, False, True, True]


def test_storing_a_key_again_takes_no_more_memory() -> None:
    """Two readers of one window do not push out what else is known."""
    cache = ScoreCache(2 * ENTRY_BYTES)
    first_key, other = (cache.key(b"first", window(text), 0) for text in ("a", "b"))
    for key in (first_key, other, other, other):
        cache.put(key, SCORE)
    assert cache.get(first_key) is SCORE
