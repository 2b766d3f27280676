"""Which files are scanned, and their texts.

A file that is named is always scanned; of a folder everything that is text, or only what coding agents read as their
instructions. Links are not followed.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.extraction import embedded

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".mypy_cache", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "node_modules", "venv"}
)
_AGENT_FILES = """
    agents.md agent.md agents.override.md claude.md claude.local.md gemini.md skill.md conventions.md .cursorrules
    .windsurfrules .clinerules .roorules .goosehints .rules copilot-instructions.md *.instructions.md *.prompt.md
    *.chatmode.md *.mdc .mcp.json mcp.json mcp.yaml mcp_config.json mcp-config.json claude_desktop_config.json
    cline_mcp_settings.json .aider.conf.yml opencode.json
"""
AGENT_FILES = tuple(_AGENT_FILES.split())
"""Names, in lower case, of files that coding agents read as instructions or as configuration of their tools."""
AGENT_FOLDERS = frozenset(
    {".agents", ".claude", ".clinerules", ".codex", ".cursor", ".gemini", ".kiro", ".roo", ".windsurf", "skills"}
)
"""Folders in which every file is one of these."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file and its text; `problem`: why it has none."""

    path: Path
    text: str = ""
    problem: str | None = None


def is_agent_file(path: Path, root: Path) -> bool:
    """Whether coding agents read this file, below a folder that was named, of their own accord."""
    name = path.name.lower()
    folders = path.parts[len(root.parts) - 1 : -1]
    return any(fnmatch.fnmatchcase(name, one) for one in AGENT_FILES) or not AGENT_FOLDERS.isdisjoint(folders)


def find_files(paths: Iterable[Path], *, agent_files: bool = False) -> list[tuple[Path, bool]]:
    """The files in order, each once, and whether it was named. Raises `ConfigError` for a path that does not exist."""
    files: dict[Path, bool] = {}
    for path in paths:
        if path.is_dir():
            for file in _walk(path):
                if not agent_files or is_agent_file(file, path):
                    files.setdefault(file, False)
        elif path.exists():
            files[path] = True
        else:
            raise ConfigError("sidecar scan", [f"{path}: no such file or folder"])
    return list(files.items())


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        yield from (file for name in sorted(names) if not (file := Path(place) / name).is_symlink() and file.is_file())


def read_file(path: Path, max_bytes: int) -> TextFile:
    """The text of a file, in the encoding that its bytes show."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        return TextFile(path, problem=error.strerror or type(error).__name__)
    if len(content) > max_bytes:
        return TextFile(path, problem=f"larger than {max_bytes} bytes (limits.body_bytes)")
    text = embedded.text_of(content)
    return TextFile(path, problem="binary") if text is None else TextFile(path, text)
