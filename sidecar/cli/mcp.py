"""`sidecar mcp`: wraps a server of the Model Context Protocol, and manages the pinned tools of all servers."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import click
from pydantic import TypeAdapter, ValidationError

from sidecar.cli.admin import note, open_store
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.mcp_pins import pin_values, show_pins
from sidecar.config import Settings
from sidecar.config.mcp import ServerName
from sidecar.config.signing import read_signer
from sidecar.decision_log import DecisionLog
from sidecar.errors import RequestError
from sidecar.mcp.catalogue import Catalogue
from sidecar.mcp.session import McpScanner
from sidecar.mcp.stdio import Output, StandardInput, Wrapper, start, stop
from sidecar.runtime.app import NO_EXPIRY, VERDICTS
from sidecar.runtime.builder import ServerContext, open_scanner
from sidecar.scan.exceptions import RuleExceptions
from sidecar.scan.service import ScanService
from sidecar.storage import Store

LAUNCHERS = frozenset("bun bunx deno docker node npx pipx podman pnpm python python3 uv uvx".split())  # noqa: SIM905
"""Programs whose first argument names the server."""
_BEFORE_NAME = frozenset({"dlx", "exec", "run", "tool", "-i", "-m", "-y", "--rm", "--yes"})
"""Subcommands of launchers, and options without a value: any other option may precede a secret."""
_NAME = TypeAdapter(ServerName)
_ODD = re.compile(r"[^A-Za-z0-9.-]+")


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run(options: tuple[str | None, Path | None], command: tuple[str, ...]) -> None:
    """Start the server and relay."""
    name, config_file = options
    _wrap(command, name or server_name(command), config_file)


class WrapperGroup(click.Group):
    """A group in which what is no subcommand is the command line of a server."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand, else `run` with all arguments."""
        return super().resolve_command(ctx, args) if args[0] in self.commands else (run.name, run, args)


def _check_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return name if name is None else _NAME.validate_python(name)
    except ValidationError:
        raise click.BadParameter(
            f"{name!r} is no name of a server: up to 48 letters, digits, dots and hyphens, no sign first."
        ) from None


@click.group(
    "mcp",
    short_help="Wrap an MCP server and scan its messages.",
    cls=WrapperGroup,
    subcommand_metavar="[pins ... | -- SERVER [ARGS]...]",
)
@click.option(
    "--name", callback=_check_name, help="Of the server in pins, logs and decisions [default: from its command]"
)
@CONFIG
@click.pass_context
def mcp(context: click.Context, name: str | None, config_file: Path | None) -> None:
    """Start an MCP server and scan the messages between it and the client that started this command.

    Put it in front of the command in the settings of the client. What is refused is answered in the protocol, so the
    connection stays. Decisions and pinned tools are kept in the store of the settings: name them with --config.
    """
    context.obj = name, config_file


@async_command
async def _wrap(command: Sequence[str], name: str, config_file: Path | None) -> int:
    settings = load_settings(config_file)
    _cancel_on_sigterm()
    server = await start(command)
    try:
        async with _scanner(settings, name) as scanner:
            await Wrapper(scanner, server, StandardInput(), Output()).run()
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    finally:
        code = await stop(server)
    return code


def _cancel_on_sigterm() -> None:
    if (task := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


@asynccontextmanager
async def _scanner(settings: Settings, name: str) -> AsyncIterator[McpScanner]:
    """The scanner as a server has it: with its store, its log, its exceptions and its cache."""
    async with AsyncExitStack() as stack:
        store = await Store.open(settings.store.url, signer=read_signer(settings.audit))
        stack.push_async_callback(store.close)
        decision_log, exceptions = DecisionLog(store, settings.store, settings.log), RuleExceptions(store)
        for part in (decision_log, exceptions):
            await part.start()
            stack.push_async_callback(part.close)
        secret = (await store.secrets.current(VERDICTS, datetime.now(UTC), NO_EXPIRY)).value
        context = ServerContext(secret, exceptions)
        built = await stack.enter_async_context(open_scanner(settings, selftests=False, server=context))
        yield McpScanner(settings, ScanService(built.engine, settings, decision_log), name, Catalogue(store.pins))


def server_name(command: Sequence[str]) -> str:
    """A name for a server: its program, or what a launcher such as npx starts; never the value of an option."""
    name = PurePath(command[0]).name
    if name in LAUNCHERS:
        word = next((word for word in command[1:] if word not in _BEFORE_NAME), "-")
        name = name if word.startswith("-") else word
    return _ODD.sub("-", name.rpartition("/")[2]).strip("-.")[:48] or "server"


@mcp.group("pins", short_help="The pinned tools of MCP servers.")
def pins() -> None:
    """The tools that MCP servers had when they were first listed, and what has changed."""


@pins.command("list", short_help="List the pinned tools and what has changed.")
@click.option("--drift", "only_drift", is_flag=True, help="Only what is not as it was pinned; exit code 1 if any.")
@JSON
@CONFIG
@async_command
async def list_pins(only_drift: bool, as_json: bool, config_file: Path | None) -> int:
    """List the pinned tools, what has changed, and names that shadow a tool of another server."""
    async with open_store(config_file) as (store, _):
        values: list[dict[str, Any]] = pin_values(await store.pins.query())
    if only_drift:
        values = [value for value in values if value["drift"] or value["shadows"]]
    if as_json:
        emit(values)
    else:
        show_pins(values)
    return 1 if only_drift and values else 0


@pins.command("accept")
@click.argument("server")
@click.argument("tool", required=False)
@CONFIG
@async_command
async def accept_pins(server: str, tool: str | None, config_file: Path | None) -> int:
    """Pin the tools of SERVER, or its TOOL, as they were last listed."""
    async with open_store(config_file) as (store, _):
        await _require(store, server)
        number = await store.pins.accept(server, tool, datetime.now(UTC))
        await note(store, "mcp_pins_accepted", server, f"{tool or 'all tools'}: {number} changed")
    click.echo(f"{number} changed")
    return 0


@pins.command("forget")
@click.argument("server")
@CONFIG
@async_command
async def forget_pins(server: str, config_file: Path | None) -> int:
    """Forget the tools of SERVER: its next list is pinned."""
    async with open_store(config_file) as (store, _):
        await _require(store, server)
        number = await store.pins.forget(server)
        await note(store, "mcp_pins_forgotten", server, f"{number} tools")
    click.echo(f"{number} forgotten")
    return 0


async def _require(store: Store, server: str) -> None:
    if not await store.pins.query(server):
        names = sorted({pin.server for pin in await store.pins.query()})
        raise RequestError(f"There are no pins of a server {server!r}; there are: {', '.join(names) or 'none'}.")
