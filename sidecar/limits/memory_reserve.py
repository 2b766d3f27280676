"""Address space set aside for when the system runs out of memory.

Without any free memory not even an exception can be created, and the interpreter ends the process. The reserve is
never touched, so it occupies no memory; it is released when a large allocation failed, and small ones then use it.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

SIZE = 32 * 1024 * 1024
"""Enough for the read-ahead of some hundred connections, an event loop, a log and a few threads."""


class MemoryReserve:
    """Acquired at creation, if there is the memory."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._mapping: mmap | None = None
        self.acquire()

    @property
    def held(self) -> bool:
        """Whether the reserve is held."""
        return self._mapping is not None

    def acquire(self) -> bool:
        """Acquire the reserve if possible; returns whether it is held now."""
        if self._mapping is None:
            try:
                self._mapping = mmap(-1, self._size, MAP_PRIVATE | MAP_ANONYMOUS)
            except (OSError, MemoryError):
                return False
        return True

    def release(self) -> None:
        """Release the reserve."""
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
