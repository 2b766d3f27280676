"""Which files are scanned, and their texts.

A file that is named is always scanned; of a folder everything that is text, or only what coding agents read as their
instructions. Links are followed inside the folder that was named, and each file is scanned once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.extraction import embedded
from sidecar.file_scan.walk import FoundFile, walk

BINARY, SPECIAL = "binary", "no regular file"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file and its text; `problem`: why it has none."""

    path: Path
    text: str = ""
    problem: str | None = None


def find_files(paths: Iterable[Path], *, agent_files: bool = False) -> list[FoundFile]:
    """The files in order, each once. Raises `ConfigError` for a path that does not exist."""
    files: dict[Path, FoundFile] = {}
    for path in paths:
        if path.is_dir():
            for file in walk(path):
                if not agent_files or file.agent or file.required:
                    files.setdefault(file.path, file)
        elif path.exists():
            files[path] = FoundFile(path, required=True)
        else:
            raise ConfigError("sidecar scan", [f"{path_name(path)}: no such file or folder"])
    return list(files.values())


def path_name(path: Path) -> str:
    """The path as valid Unicode: bytes that are not UTF-8 become escapes of a backslash, `x` and two digits."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def read_file(path: Path, max_bytes: int) -> TextFile:
    """The text of a file, in the encoding that its bytes show."""
    try:
        content = _content(path, max_bytes + 1)
    except OSError as error:
        return TextFile(path, problem=error.strerror or type(error).__name__)
    if content is None:
        return TextFile(path, problem=SPECIAL)
    whole = len(content) <= max_bytes
    text = embedded.text_of(content if whole else content[: max_bytes // 2 * 2])  # UTF-16 has pairs of bytes
    if text is None:
        return TextFile(path, problem=BINARY)
    if not whole:
        return TextFile(path, problem=f"larger than {max_bytes} bytes (limits.body_bytes)")
    return TextFile(path, text)


def _content(path: Path, size: int) -> bytes | None:
    """The first bytes; None for pipes, sockets and devices, at which a program could wait without end."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        mode = os.fstat(file.fileno()).st_mode
        return file.read(size) if stat.S_ISREG(mode) else None


def is_error(found: FoundFile, problem: str) -> bool:
    """Whether a file that was not scanned is an error; of other files only binaries and special files are none."""
    return found.required or (found.problem is None and problem not in {BINARY, SPECIAL})
