"""The command `sidecar`: arguments in, exit code out."""

from __future__ import annotations

import click

from sidecar import __version__
from sidecar.cli.examples import epilog
from sidecar.cli.lazy_commands import LazyCommands

COMMANDS = LazyCommands(
    {
        "admin": "admin:admin",
        "alerts": "alerts:alerts",
        "audit": "audit:audit",
        "check": "check:check",
        "completion": "examples:completion_command",
        "doctor": "doctor:doctor",
        "eval": "evaluate:evaluate",
        "harden": "harden:harden",
        "inject": "kubernetes:inject_command",
        "keys": "keys:keys",
        "mcp": "mcp:mcp",
        "quit": "kubernetes:quit_command",
        "redirect": "redirect:redirect_command",
        "review": "review:review",
        "scan": "scan:scan",
        "serve": "serve:serve",
        "uninject": "kubernetes:uninject_command",
        "users": "users:users",
        "webhook": "kubernetes:webhook_command",
    }
)


@click.group(commands=COMMANDS, epilog=epilog(""), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sidecar")
def main() -> None:
    """Scan prompts before they reach a large language model."""
