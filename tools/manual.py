"""Generates the command reference: docs/commands.md for the site, sidecar/sidecar.1 for `man`.

`python -m tools.reference` writes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from sidecar.cli.examples import EXAMPLES, PROGRAM
from sidecar.cli.main import main

ROOT = Path(__file__).parent.parent
HEAD = """# Commands

Written by `python -m tools.reference` from the commands themselves; do not edit. `sidecar COMMAND --help` says the
same, and so does `man sidecar` where the package is installed. Exit codes: 0 it is done (`scan`: allow), 1 `scan`
blocks, 2 an error, told in one message. Completion for a shell: `sidecar completion bash`, `zsh` or `fish`.
"""
TAIL = r""".SH EXIT STATUS
0: it is done, or \fBscan\fR allows. 1: \fBscan\fR blocks. 2: an error, told in one message.
.SH FILES
.TP
.I config.yaml
The settings, in the working folder; \fB\-\-config\fR names another file.
.SH ENVIRONMENT
.TP
.B SIDECAR__SECTION__KEY
Overrides a setting; with \fB_FILE\fR behind it a file that holds the value."""
WIDTH = 200


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All visible commands, by their words after the program's name."""
    yield name, command
    if isinstance(command, click.Group):
        for word in sorted(command.commands):
            yield from commands(command.commands[word], f"{name} {word}".strip())


def _context(name: str, command: click.Command) -> click.Context:
    return click.Context(command, info_name=f"{PROGRAM} {name}".strip(), terminal_width=WIDTH, max_content_width=WIDTH)


def _usage(name: str, command: click.Command) -> str:
    return " ".join(command.get_usage(_context(name, command)).removeprefix("Usage: ").split())


def _options(name: str, command: click.Command) -> list[tuple[str, str]]:
    context = _context(name, command)
    records = [record for p in command.params if (record := p.get_help_record(context)) is not None]
    return [(" ".join(names.split()), " ".join(help_text.split())) for names, help_text in records if help_text]


def _paragraphs(command: click.Command) -> list[str]:
    """Its help text, without the hand-formatted block."""
    whole = [" ".join(part.split()) for part in (command.help or "").split("\n\n") if not part.strip().startswith("\b")]
    return [part for part in whole if part]


def page() -> str:
    """The page of the site."""
    return HEAD + "".join(_section(name, command) for name, command in commands(main) if name)


def _section(name: str, command: click.Command) -> str:
    paragraphs = "\n\n".join(_paragraphs(command)).replace("<", "&lt;")
    cells = ((names.replace("|", "\\|"), text.replace("|", "\\|")) for names, text in _options(name, command))
    rows = "".join(f"| `{names}` | {text} |\n" for names, text in cells)
    table = f"\n| option | |\n|---|---|\n{rows}" if rows else ""
    lines = "\n".join(EXAMPLES.get(name, ()))
    return f"\n## {PROGRAM} {name}\n\n{paragraphs}\n\n`{_usage(name, command)}`\n{table}\n```sh\n{lines}\n```\n"


def man() -> str:
    """The page for `man`, in roff."""
    parts = [
        f'.TH {PROGRAM.upper()} 1 "" "prompt-sidecar" "User Commands"',
        f".SH NAME\n{PROGRAM} \\- scan prompts before they reach a large language model",
        f".SH SYNOPSIS\n{_roff(_usage('', main))}",
        ".SH COMMANDS",
        *(_entry(name, command) for name, command in commands(main) if name),
        TAIL,
    ]
    return "\n".join(parts) + "\n"


def _entry(name: str, command: click.Command) -> str:
    paragraphs = "\n.PP\n".join(_roff(part) for part in _paragraphs(command))
    options = "".join(f"\n.TP\n.B {_roff(names)}\n{_roff(text)}" for names, text in _options(name, command))
    examples = "\n".join(_roff(line) for line in EXAMPLES.get(name, ()))
    usage = _roff(_usage(name, command))
    return f".SS {usage}\n{paragraphs}{options}\n.PP\nExamples:\n.PP\n.RS 4\n.nf\n{examples}\n.fi\n.RE"


def _roff(text: str) -> str:
    """Text escaped for roff: backslashes, hyphens, and lines that begin with a dot or a quote."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"(?m)^([.'])", r"\\&\1", safe)


def pages() -> list[tuple[Path, str]]:
    """The generated pages by their path."""
    return [(ROOT / "docs" / "commands.md", page()), (ROOT / "sidecar" / "sidecar.1", man())]
