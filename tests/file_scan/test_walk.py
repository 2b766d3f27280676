"""Tests of the walk: which files agents read, and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.file_scan.walk import FoundFile, is_agent_folder, walk


def make(folder: Path, *names: str) -> None:
    """Files with text."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text", "utf-8")


def found(folder: Path) -> dict[str, FoundFile]:
    """By the path below the folder."""
    return {file.path.relative_to(folder).as_posix(): file for file in walk(folder)}


@pytest.mark.parametrize("root", [".", "", "../repo", "{}"])
def test_folders_of_agents_are_seen_however_the_root_is_written(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any case of letters."""
    make(tmp_path / "repo", ".claude/commands/a.txt", "sub/.Cursor/a.txt", "sub/b.txt")
    monkeypatch.chdir(tmp_path / "repo")
    agents = [file.path.name for file in walk(Path(root.format(tmp_path / "repo"))) if file.agent]
    assert agents == ["a.txt", "a.txt"]


def test_a_folder_within_one_of_agents_is_one_up_to_its_repository(tmp_path: Path) -> None:
    """A working copy below `.claude` is a project of its own."""
    make(tmp_path, ".claude/commands/a.txt", ".claude/worktrees/x/.git/config", ".claude/worktrees/x/src/b.txt")
    assert is_agent_folder(tmp_path / ".claude" / "commands")
    assert not is_agent_folder(tmp_path / ".claude" / "worktrees" / "x" / "src")


def test_texts_of_agents_have_to_be_scanned(tmp_path: Path) -> None:
    """By their name; a picture of a skill need not be."""
    make(tmp_path, "CLAUDE.md", ".cursorrules", "skills/a.md", "skills/a.png", "b.md")
    assert {name for name, file in found(tmp_path).items() if file.required} == {
        *("CLAUDE.md", ".cursorrules", "skills/a.md"),
    }


def test_links_inside_the_folder_are_followed_once(tmp_path: Path) -> None:
    """Where agents read a file only by the link, it counts; loops end."""
    make(tmp_path, "notes.txt", "shared/deploy.txt", "AGENTS.md", "skills/x.bin", "plain.txt")
    (tmp_path / "CLAUDE.md").symlink_to("notes.txt")
    (tmp_path / "GEMINI.md").symlink_to("AGENTS.md")
    (tmp_path / "SKILL.md").symlink_to("skills/x.bin")
    (tmp_path / "other.txt").symlink_to("plain.txt")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "commands").symlink_to("../shared")
    (tmp_path / "shared" / "loop").symlink_to("..")
    files = found(tmp_path)
    assert files["CLAUDE.md"].required
    assert files["SKILL.md"].required
    assert files[".claude/commands/deploy.txt"].agent
    assert not {"GEMINI.md", "other.txt"} & set(files)
    assert len(files) < 20


def test_links_that_cannot_be_followed_are_named(tmp_path: Path) -> None:
    """To nothing, to themselves, out of the folder; errors only where agents read."""
    make(tmp_path, "out/a.md", "repo/a.txt")
    for name, target in (("CLAUDE.md", "../out/a.md"), ("b", "../out"), ("c", "c"), ("AGENTS.md", "nothing")):
        (tmp_path / "repo" / name).symlink_to(target)
    (tmp_path / "repo" / ".claude").symlink_to("../out")
    files = found(tmp_path / "repo")
    assert {name: (file.problem, file.required) for name, file in files.items() if name != "a.txt"} == {
        "CLAUDE.md": ("link out of the folder", True),
        ".claude": ("link out of the folder", True),
        "AGENTS.md": ("link to nothing", True),
        "b": ("link out of the folder", False),
        "c": ("link to nothing", False),
    }


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hide anything."""

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sidecar.file_scan.walk.os.scandir", refuse)
    assert walk(tmp_path) == [FoundFile(tmp_path, required=True, problem="Permission denied")]
