"""Twin of sidecar/detectors/semantic/recent_scores.py."""

from __future__ import annotations

import numpy as np

from sidecar.detectors.semantic.cascade import WindowScore
from sidecar.detectors.semantic.recent_scores import ENTRY_BYTES, ScoreCache
from sidecar.detectors.semantic.windows import Window

SAID = WindowScore(np.zeros(5, np.float32))


def window(text: str, *ids: int) -> Window:
    """A window of these tokens."""
    return Window(ids, 0, len(text), text)


def test_what_was_said_of_a_window_is_known_wherever_it_stands() -> None:
    """Its place in the text does not matter; its tokens, its text, its channel and the stage do."""
    kept = ScoreCache()
    key = kept.key(b"first", window("calm", 4), 0)
    kept.put(key, SAID)
    assert kept.get(kept.key(b"first", Window((4,), 7, 11, "calm"), 0)) is SAID
    others = [
        kept.key(b"second", window("calm", 4), 0),
        kept.key(b"first", window("calm", 4), 1),
        kept.key(b"first", window("calm", 5), 0),
        kept.key(b"first", window("calm "), 0),
    ]
    assert [kept.get(other) for other in others] == [None] * 4


def test_no_two_processes_know_a_window_by_the_same() -> None:
    """The digest has a secret, so what is kept tells nobody which texts were read."""
    first, second = (ScoreCache().key(b"first", window("calm", 4), 0) for _ in range(2))
    assert first != second


def test_the_oldest_use_goes_first_and_features_weigh() -> None:
    """The bound is in bytes; what was asked for again stays."""
    kept = ScoreCache(3 * ENTRY_BYTES)
    keys = [kept.key(b"first", window(str(n), n), 0) for n in range(5)]
    for key in keys[:3]:
        kept.put(key, SAID)
    kept.get(keys[0])
    kept.put(keys[3], SAID)
    assert [kept.get(key) is not None for key in keys] == [True, False, True, True, False]
    kept.put(keys[4], WindowScore(SAID.logits, np.zeros(ENTRY_BYTES // 4 - 1, np.float32)))
    assert [kept.get(key) is not None for key in keys] == [False, False, False, True, True]


def test_keeping_the_same_again_takes_no_more_room() -> None:
    """Two readers of one window do not push out what else is known."""
    kept = ScoreCache(2 * ENTRY_BYTES)
    one, other = (kept.key(b"first", window(text), 0) for text in ("a", "b"))
    for key in (one, other, other, other):
        kept.put(key, SAID)
    assert kept.get(one) is SAID
