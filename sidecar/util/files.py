"""Why a file could not be read, in the words of the operating system and not in those of Python."""

from __future__ import annotations


def describe_failure(error: OSError | UnicodeDecodeError) -> str:
    """One phrase without the file's name or content: `No such file or directory`, `not ASCII at byte 7`."""
    if isinstance(error, UnicodeDecodeError):
        return f"not {error.encoding.upper()} at byte {error.start}"
    return error.strerror or type(error).__name__
