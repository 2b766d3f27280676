"""Twin of sidecar/cli/examples.py: examples that parse, completion that completes, a manual that is current."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import pytest
from click.testing import CliRunner

from sidecar.cli.examples import EXAMPLES, PROGRAM
from sidecar.cli.main import main
from tools import manual

EVERY = list(manual.commands(main))
LINES = [(name, line) for name, lines in EXAMPLES.items() for line in lines]
FILES = (
    *("production.yaml", "deployment.yaml", "protected.yaml", "training.yaml"),
    *("labelled.jsonl", "labelled.jsonl.gz", "benign.txt"),
)


@pytest.mark.parametrize("group", [name for name, command in EVERY if isinstance(command, click.Group)])
def test_no_line_of_a_list_of_commands_is_cut(group: str) -> None:
    """At 80 columns."""
    shown = CliRunner().invoke(main, [*group.split(), "--help"]).stdout
    listed = shown.partition("Commands:")[2].partition("Examples:")[0]
    assert listed.strip()
    assert not [line for line in listed.splitlines() if line.endswith("...")]


def test_every_command_has_examples_and_every_example_a_command() -> None:
    """A command without one, or one that is gone, is found here."""
    assert {name for name, _ in EVERY} == set(EXAMPLES)


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name or "sidecar" for name, _ in EVERY])
def test_every_help_ends_with_its_examples(name: str, command: click.Command) -> None:
    """Each on a line of its own, as it would be typed."""
    shown = CliRunner().invoke(main, [*name.split(), "--help"], prog_name="sidecar").stdout
    described, _, examples = shown.partition("Examples:\n")
    assert len(described.splitlines()) > 3
    assert [line.strip() for line in examples.splitlines()] == list(EXAMPLES[name])


def parts(line: str) -> Iterator[list[str]]:
    """The words after `sidecar`, of each time that the line calls it; without variables and redirections."""
    for piece in line.split("|"):
        words = shlex.split(re.split(r"[<>]", piece)[0])
        if PROGRAM in words:
            yield words[words.index(PROGRAM) + 1 :]


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_every_example_is_a_command_line_that_is_understood(
    name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that it stands under takes these options and these values."""
    monkeypatch.chdir(tmp_path)
    for file in FILES:
        Path(file).touch()
    for words in parts(line):
        path, command, context = [PROGRAM], cast("click.Command", main), click.Context(main, info_name=PROGRAM)
        remaining = list(words)
        while isinstance(command, click.Group) and remaining[0] in command.commands:
            path.append(remaining.pop(0))
            command = command.commands[path[-1]]
        with command.make_context(path[-1], remaining, parent=context) as understood:
            assert not understood.args or isinstance(command, click.Group)  # the command line of a server
        assert " ".join(path[1:]).startswith(name)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    """Click's script for that shell, which calls the program in its form."""
    result = CliRunner().invoke(main, ["completion", shell], prog_name="sidecar")
    assert result.exit_code == 0
    assert f"_SIDECAR_COMPLETE={shell}_complete" in result.stdout
    assert "_sidecar_completion" in result.stdout


def test_bash_completes_a_command(tmp_path: Path) -> None:
    """A real bash that sourced the script, and a real program."""
    script = CliRunner().invoke(main, ["completion", "bash"], prog_name="sidecar").stdout
    program = tmp_path / "sidecar"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sidecar "$@"\n', "utf-8")
    program.chmod(0o755)
    typed = "COMP_WORDS=(sidecar keys cre); COMP_CWORD=2; _sidecar_completion sidecar; echo ${COMPREPLY[@]}"
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(manual.ROOT)}
    result = subprocess.run(["bash", "-c", f"{script}\n{typed}"], capture_output=True, check=True, env=path, timeout=60)
    assert result.stdout.decode().split() == ["create"], result.stderr


@pytest.mark.parametrize(("path", "text"), manual.pages(), ids=lambda value: getattr(value, "name", ""))
def test_the_manual_is_current(path: Path, text: str) -> None:
    """`python -m tools.reference` writes it; whoever changes a command runs that."""
    assert path.read_text("utf-8") == text
