"""Tests of the files that are scanned: named ones, those of a folder, and what has no text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import ConfigError
from sidecar.file_scan.discovery import BINARY, SPECIAL, find_files, is_error, path_name, read_file
from sidecar.file_scan.walk import SKIPPED_FOLDERS, FoundFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project."""
    for name in (
        *("AGENTS.md", "README.md", ".mcp.json", ".github/copilot-instructions.md", ".cursor/rules/a.txt"),
        *("skills/pdf/SKILL.md", "skills/pdf/fill.py", "src/claude.md", "node_modules/x/CLAUDE.md", ".git/config"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text", "utf-8")
    (tmp_path / "link.md").symlink_to(tmp_path / "README.md")
    return tmp_path


def names(folder: Path, **options: bool) -> list[str]:
    """What is found, relative to the folder."""
    return sorted(file.path.relative_to(folder).as_posix() for file in find_files([folder], **options))


def test_all_files_of_a_folder_are_found_but_those_of_tools(folder: Path) -> None:
    """No links, no version control, no installed packages."""
    found = names(folder)
    assert {"README.md", "src/claude.md", "skills/pdf/fill.py", ".mcp.json"} <= set(found)
    assert not any(name.startswith(("node_modules", ".git/", "link")) for name in found)


def test_agent_files_are_those_that_agents_read_of_their_own_accord(folder: Path) -> None:
    """By name in any case, and all of their folders."""
    assert names(folder, agent_files=True) == [
        *(".cursor/rules/a.txt", ".github/copilot-instructions.md", ".mcp.json", "AGENTS.md"),
        *("skills/pdf/SKILL.md", "skills/pdf/fill.py", "src/claude.md"),
    ]


def test_a_named_file_is_found_once_and_a_missing_one_is_an_error(folder: Path) -> None:
    """Even one that no agent reads."""
    found = find_files([folder / "README.md", folder / "README.md"], agent_files=True)
    assert found == [FoundFile(folder / "README.md", required=True)]
    with pytest.raises(ConfigError, match=r"nothing\.md: no such file"):
        find_files([folder / "nothing.md"])


def test_what_has_no_text_is_named_with_its_reason(tmp_path: Path) -> None:
    """A picture, a large file, one that cannot be read; UTF-16 is text."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    (tmp_path / "b.md").write_bytes("Hello there, reader.".encode("utf-16"))
    assert read_file(tmp_path / "a.png", 10_000).problem == "binary"
    assert read_file(tmp_path / "b.md", 10_000).text.endswith("Hello there, reader.")
    assert "limits.body_bytes" in (read_file(tmp_path / "b.md", 5).problem or "")
    assert read_file(tmp_path, 5).problem == "Is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "pipe", 5).problem == SPECIAL


def test_binaries_of_a_folder_are_no_error_unless_they_had_to_be_scanned() -> None:
    """A text that is too large is one everywhere."""
    path = Path("a")
    assert not any(is_error(FoundFile(path, agent=True), problem) for problem in (BINARY, SPECIAL))
    assert all(is_error(FoundFile(path, required=True), problem) for problem in (BINARY, SPECIAL))
    assert is_error(FoundFile(path), "larger than 5 bytes")
    assert not is_error(FoundFile(path, problem="link to nothing"), "link to nothing")
    assert is_error(FoundFile(path, required=True, problem="Permission denied"), "Permission denied")


@pytest.mark.parametrize("name", ["src", ".claude", "."])
def test_a_folder_that_cannot_be_listed_is_an_error_everywhere(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold what agents read, whether it is a folder of agents or not."""
    (folder / ".claude").mkdir()
    locked, scandir = (folder / name).resolve(), os.scandir

    def refuse(path: Path) -> Any:
        if Path(path).resolve() == locked:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("sidecar.file_scan.walk.os.scandir", refuse)
    for agent_files in (True, False):
        (failed,) = [file for file in find_files([folder], agent_files=agent_files) if file.problem]
        assert (failed.path.resolve(), is_error(failed, failed.problem or "")) == (locked, True)


def test_skipped_folders_are_scanned_where_they_are_named(folder: Path) -> None:
    """And the guide names all of them."""
    assert [file.path.name for file in find_files([folder / "node_modules"])] == ["CLAUDE.md"]
    guide = (Path(__file__).parents[2] / "docs" / "recipes" / "agent-files.md").read_text("utf-8")
    assert not [name for name in SKIPPED_FOLDERS if f"`{name}`" not in guide]


def test_the_name_of_a_path_is_unicode() -> None:
    """Foreign bytes are escaped, the rest is as it is written."""
    assert path_name(Path(os.fsdecode(b"a b/\xff.md"))) == r"a b/\xff.md"
