"""LRU cache of window scores, so that a retry after a timeout continues where the scan ended.

Bounded in bytes. Keys are digests keyed with a secret of this process: no text is kept. Used by one thread.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections import OrderedDict

from sidecar.detectors.semantic.cascade import FirstStageScore, WindowScore
from sidecar.detectors.semantic.windows import Window

MAX_BYTES = 16 * 1024 * 1024
"""Enough for the windows of 10 MB of text."""
ENTRY_BYTES = 500
"""Bytes of an entry with its key and five logits, estimated generously."""


class ScoreCache:
    """Scores of both stages by window and channel."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._size = max_bytes, 0
        self._secret = secrets.token_bytes(16)
        self._scores: OrderedDict[bytes, FirstStageScore | WindowScore] = OrderedDict()

    def key(self, stage: bytes, window: Window, channel: int) -> bytes:
        """The key of a window."""
        digest = hashlib.blake2b(stage + bytes([channel]), digest_size=16, key=self._secret)
        digest.update(array("q", window.ids).tobytes())
        digest.update(window.text.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def get(self, key: bytes) -> FirstStageScore | WindowScore | None:
        """The cached score, if any."""
        score = self._scores.get(key)
        if score is not None:
            self._scores.move_to_end(key)
        return score

    def put(self, key: bytes, score: FirstStageScore | WindowScore) -> None:
        """Store a score and evict the least recently used ones."""
        if (previous := self._scores.pop(key, None)) is not None:
            self._size -= _size(previous)
        self._scores[key] = score
        self._size += _size(score)
        while self._size > self._max_bytes:
            self._size -= _size(self._scores.popitem(last=False)[1])


def _size(score: FirstStageScore | WindowScore) -> int:
    features = score.features if isinstance(score, WindowScore) else None
    return ENTRY_BYTES + (0 if features is None else features.nbytes)
