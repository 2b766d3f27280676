"""Why a connection failed, in the words of the operating system and not in those of a library."""

from __future__ import annotations

import os


def describe_connection(error: Exception) -> str:
    """One phrase: `connection refused`, or the name of the error where the system has none for it."""
    cause = getattr(error, "os_error", error)  # of aiohttp's errors of a connection
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return type(error).__name__
