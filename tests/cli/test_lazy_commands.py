"""Twin of sidecar/cli/lazy_commands.py."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from sidecar.cli.lazy_commands import LazyCommands

HEAVY = ("sqlalchemy", "aiohttp", "tokenizers", "onnxruntime", "numpy", "jinja2")


@pytest.mark.parametrize(
    "arguments", ["--version", "inject --help", "uninject --help", "doctor --help", "completion --help"]
)
def test_a_command_loads_what_it_needs(arguments: str) -> None:
    """Those that serve and scan nothing load neither the database nor the web server nor a model."""
    code = f"""import sys
from sidecar.cli.main import main
try:
    main({arguments.split()!r})
finally:
    print("\\n", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stderr.split() == []
    assert done.stdout


def test_it_is_a_mapping_like_any_other() -> None:
    """Known without being loaded; loaded once; others may be added and removed."""
    commands = LazyCommands({"completion": "examples:completion_command"})
    assert (len(commands), list(commands), "completion" in commands, "serve" in commands) == (
        1,
        ["completion"],
        True,
        False,
    )
    assert commands["completion"] is commands.get("completion")
    assert commands.get("serve") is None
    commands["other"] = click.Command("other")
    assert commands["other"].name == "other"
    del commands["other"]
    assert list(commands) == ["completion"]
