"""The files of a folder, through links inside it, and which of them coding agents read of their own accord."""

from __future__ import annotations

import fnmatch
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".mypy_cache", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "node_modules", "venv"}
)
"""What tools keep for themselves, at any depth; it is scanned where it is the folder that was named."""
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
_TEXT_SUFFIXES = """
    .htm .html .js .json .jsonc .markdown .md .mdc .mdx .py .rst .rules .sh .toml .ts .txt .xml .yaml .yml
"""
TEXT_SUFFIXES = frozenset(_TEXT_SUFFIXES.split())
"""Files in these folders that are text by their name. The others, such as pictures of a skill, may be binaries."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to scan. `problem`: why it cannot be read.

    `agent`: coding agents read it of their own accord. `required`: it has to be scanned, since it was named, is text
    for agents, or is a folder that cannot be listed, which may hide either.
    """

    path: Path
    agent: bool = False
    required: bool = False
    problem: str | None = None


def walk(root: Path) -> list[FoundFile]:
    """All files below a folder, by path."""
    return sorted(_Walk(root).files(), key=lambda file: file.path)


def is_agent_folder(folder: Path) -> bool:
    """Whether it, or a folder above it in the same repository, is one of agents."""
    folder = folder.absolute()
    for one in (folder, *folder.parents):
        if one.name.lower() in AGENT_FOLDERS:
            return True
        if (one / ".git").exists():
            break
    return False


class _Walk:
    """One walk: first what is no link, then the links, so that a file has its own path where it has one."""

    def __init__(self, root: Path) -> None:
        self._inside = root.resolve()
        self._folders, self._links = [(root, is_agent_folder(root))], deque[tuple[Path, bool]]()
        self._seen: dict[Path, tuple[bool, bool]] = {}

    def files(self) -> Iterator[FoundFile]:
        while self._folders or self._links:
            if self._folders:
                yield from self._folder(*self._folders.pop())
            else:
                yield from self._link(*self._links.popleft())

    def _folder(self, folder: Path, agent: bool) -> Iterator[FoundFile]:
        target = folder.resolve()
        if self._is_known(target, agent):
            return
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            yield FoundFile(folder, agent, required=True, problem=error.strerror or type(error).__name__)
            return
        for entry in entries:
            yield from self._entry(entry, folder / entry.name, target / entry.name, agent)

    def _entry(self, entry: os.DirEntry[str], path: Path, target: Path, agent: bool) -> Iterator[FoundFile]:
        if entry.is_symlink():
            self._links.append((path, agent))
        elif entry.is_dir():
            self._add_folder(path, agent)
        else:
            yield from self._file(path, target, agent)

    def _link(self, path: Path, agent: bool) -> Iterator[FoundFile]:
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # a loop of links is a RuntimeError
            yield _found(path, agent, "link to nothing")
            return
        if not target.is_relative_to(self._inside):
            is_agent = agent or path.name.lower() in AGENT_FOLDERS
            yield _found(path, agent, "link out of the folder", is_required=is_agent and target.is_dir())
        elif target.is_dir():
            self._add_folder(path, agent)
        else:
            yield from self._file(path, target, agent)

    def _add_folder(self, path: Path, agent: bool) -> None:
        if path.name not in SKIPPED_FOLDERS:
            self._folders.append((path, agent or path.name.lower() in AGENT_FOLDERS))

    def _file(self, path: Path, target: Path, agent: bool) -> Iterator[FoundFile]:
        found = _found(path, agent)
        if not self._is_known(target, found.agent, found.required):
            yield found

    def _is_known(self, target: Path, agent: bool, required: bool = False) -> bool:
        """Whether it was found before; again counts only where agents read it, or must, by the second path alone."""
        known = self._seen.get(target)
        if known is not None and known >= (agent, required):
            return True
        self._seen[target] = (agent, required)
        return False


def _found(path: Path, agent: bool, problem: str | None = None, *, is_required: bool = False) -> FoundFile:
    named = any(fnmatch.fnmatchcase(path.name.lower(), one) for one in AGENT_FILES)
    required = is_required or named or (agent and path.suffix.lower() in TEXT_SUFFIXES)
    return FoundFile(path, agent or named or is_required, required, problem)
