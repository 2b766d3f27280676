"""Room in the address space that is set aside for the moment when there is no memory.

Without a byte to spare even an error cannot be made, and the interpreter ends the process. The reserve is never
touched, so it takes no memory; let go when something large failed, it is what all that is small then lives on.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

SIZE = 32 * 1024 * 1024
"""What some hundred connections have read ahead, and an event loop, a log and a few threads work with."""


class Reserve:
    """Kept from the beginning, if there is the memory."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._kept: mmap | None = None
        self.keep()

    @property
    def kept(self) -> bool:
        """Whether it is there."""
        return self._kept is not None

    def keep(self) -> bool:
        """Have it again, if that can be; whether it is there now."""
        if self._kept is None:
            try:
                self._kept = mmap(-1, self._size, MAP_PRIVATE | MAP_ANONYMOUS)
            except (OSError, MemoryError):
                return False
        return True

    def let_go(self) -> None:
        """Now, for whoever needs it."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
