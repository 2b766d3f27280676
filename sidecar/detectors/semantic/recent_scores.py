"""What the models said of windows lately, so that a scan that ran out of time goes on there when it is tried again.

Bounded in bytes, the oldest use goes first. Windows are known by a digest with a secret of this process: no text is
kept. Used by one thread.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections import OrderedDict

from sidecar.detectors.semantic.cascade import Glimpse, Said
from sidecar.detectors.semantic.windows import Window

BYTES = 16 * 1024 * 1024
"""Enough for the windows of 10 MB of text."""
ENTRY = 500
"""Bytes of an entry with its key and five logits, counted generously."""


class Kept:
    """Results of both stages by window and channel."""

    def __init__(self, most: int = BYTES) -> None:
        self._most, self._size = most, 0
        self._secret = secrets.token_bytes(16)
        self._found: OrderedDict[bytes, Glimpse | Said] = OrderedDict()

    def key(self, stage: bytes, window: Window, channel: int) -> bytes:
        """What a window is known by."""
        known = hashlib.blake2b(stage + bytes([channel]), digest_size=16, key=self._secret)
        known.update(array("q", window.ids).tobytes())
        known.update(window.text.encode("utf-8", "surrogatepass"))
        return known.digest()

    def get(self, key: bytes) -> Glimpse | Said | None:
        """What was said of it, if that is still known."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: bytes, found: Glimpse | Said) -> None:
        """Remember it, and forget the oldest."""
        if (before := self._found.pop(key, None)) is not None:
            self._size -= _size(before)
        self._found[key] = found
        self._size += _size(found)
        while self._size > self._most:
            self._size -= _size(self._found.popitem(last=False)[1])


def _size(found: Glimpse | Said) -> int:
    features = found.features if isinstance(found, Said) else None
    return ENTRY + (0 if features is None else features.nbytes)
