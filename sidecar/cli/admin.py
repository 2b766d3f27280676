"""`sidecar admin`: manages the dashboard's accounts and the scan log without a browser.

Passwords are never arguments: creating or resetting an account prints a one-time link to pass on.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import click

from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, Duration, async_command, emit, load_settings
from sidecar.cli.decision_tables import show_decision
from sidecar.cli.greeting import settings_source
from sidecar.config import Settings
from sidecar.config.signing import read_signer
from sidecar.dashboard import base_url, invite
from sidecar.dashboard.users import check_invitation, describe, read_teams, without_keys
from sidecar.errors import RequestError
from sidecar.storage import Event, Filter, Role, Store, export, valid_name
from sidecar.util import logs

ACTOR = "command line"


@click.group(short_help="Accounts of the dashboard, and the scan log.")
def admin() -> None:
    """Accounts of the dashboard, and the scan log; works beside a running server on the same store."""


@asynccontextmanager
async def open_store(config_file: Path | None, *, signs: bool = True) -> AsyncIterator[tuple[Store, Settings]]:
    """The store that the settings name; safe beside a server that uses it. `signs`: begins and writes checkpoints."""
    settings = load_settings(config_file)
    logs.configure(settings.log.format, "warning")  # what was done is told by the command itself
    is_new = _is_absent(settings.store.url)
    store = await Store.open(settings.store.url, signer=read_signer(settings.audit) if signs else None)
    if is_new:
        source = settings_source(config_file or Path("config.yaml"))
        output.err.print(f"{store.place} is new: no server has used it. The settings are {source}.", markup=False)
    try:
        yield store, settings
    finally:
        await store.close()


def _is_absent(url: str) -> bool:
    """Whether the store is a file that opening it will create."""
    file = url.removeprefix("sqlite:///")
    return file != url and not Path(file).exists()


async def note(store: Store, action: str, target: str, detail: str = "") -> None:
    """Write an action to the audit trail, with the operating system's user in place of an address."""
    await store.audit.add(Event(datetime.now(UTC), ACTOR, _user(), action, target, detail))


def _user() -> str:
    """The user of the process, whatever the environment says; a container's may have no name."""
    try:
        return f"user {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"user {os.getuid()}"


async def warn_of_teams(store: Store, teams: Iterable[str] | None) -> None:
    """Name the teams that no key has yet, which may be misspelled."""
    if unknown := await without_keys(store, teams):
        output.err.print(f"no key has this team yet: {', '.join(unknown)}", style="yellow", markup=False)


async def _link(config_file: Path | None, name: str, role: Role | None, teams: str | None = None) -> int:
    """Print a one-time link; `role` is for a new account, None resets an existing one."""
    limit = read_teams(teams or "")
    if teams is not None and limit is None:
        raise RequestError("--teams: name at least one team, or leave the option out for all")
    async with open_store(config_file) as (store, settings):
        account = await store.admins.get(name)
        if role is None and account is None:
            raise RequestError(f"There is no account {name!r}; `sidecar admin create` makes one.")
        if role is not None and (account or not valid_name(name)):
            reason = "is there already; use reset-password" if account else "is no name: a-z, 0-9 and ._-+@, 64 at most"
            raise RequestError(f"{name!r} {reason}.")
        if account is not None and account.subject is not None:
            raise RequestError(f"{name!r} has no password: it is kept at the OpenID provider.")
        new_role = role or (account.role if account else Role.VIEWER)
        if role is not None:
            await check_invitation(store, name, role, limit)
            await warn_of_teams(store, limit)
        path = await invite(store, name, new_role, ACTOR, limit)
        await note(store, "user_invited" if role else "user_reset", name, describe(new_role, limit))
    output.err.print(f"For {name} ({new_role}); works once, within 24 hours:", markup=False)
    click.echo(base_url(settings) + path)
    return 0


@admin.command("create", short_help="Print a link that makes an account.")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([str(role) for role in Role]),
    default="admin",
    show_default=True,
    help="Permissions of the account.",
)
@click.option("--teams", help="Whose keys and decisions it sees, such as shop,search [default: all]")
@CONFIG
@async_command
async def create(name: str, role: str, teams: str | None, config_file: Path | None) -> int:
    """Print a one-time link by which NAME chooses a password and enters the dashboard."""
    return await _link(config_file, name, Role(role), teams)


@admin.command("reset-password", short_help="Print a link that sets a new password.")
@click.argument("name")
@CONFIG
@async_command
async def reset_password(name: str, config_file: Path | None) -> int:
    """Print a one-time link by which NAME chooses a new password; all sessions end when it is used."""
    return await _link(config_file, name, None)


@admin.command("export", short_help="Write the scan log to standard output.")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), default="jsonl", show_default=True)
@click.option("--since", "age", type=Duration(), help="Only decisions of this recent period, such as 7d [default: all]")
@CONFIG
@async_command
async def export_log(form: Literal["csv", "jsonl"], age: timedelta | None, config_file: Path | None) -> int:
    """Write the scan log to standard output, the newest decision first."""
    criteria = Filter(since=_ago(age) if age is not None else None)
    async with open_store(config_file) as (store, _):
        await note(store, "log_exported", form)
        async for piece in export(
            store.decisions, form, criteria, keys={key.id: key for key in await store.keys.list()}
        ):
            click.echo(piece, nl=False)
    return 0


@admin.command("decision", short_help="Show one decision of the scan log.")
@click.argument("decision_id", metavar="ID")
@click.option("--text", is_flag=True, help="Show what the log holds of the prompt, too. It is untrusted input.")
@JSON
@CONFIG
@async_command
async def decision(decision_id: str, text: bool, as_json: bool, config_file: Path | None) -> int:
    """Show one decision of the scan log; ID is that of the message to the client and of x-sidecar-decision."""
    async with open_store(config_file) as (store, _):
        row = await store.decisions.get(decision_id.strip())
    if row is None:
        raise RequestError(f"There is no decision {decision_id!r}; it may be older than the retention (log.retention).")
    if as_json:
        emit(asdict(row if text else replace(row, text=None, reasoning=None)))
    else:
        show_decision(row, text=text)
    return 0


@admin.command("purge", short_help="Delete old decisions from the scan log.")
@click.option("--older-than", "age", type=Duration(), required=True, help="Delete decisions older than this: 30d.")
@CONFIG
@async_command
async def purge(age: timedelta, config_file: Path | None) -> int:
    """Delete old decisions from the scan log now; prints how many."""
    async with open_store(config_file) as (store, _):
        count = await store.decisions.purge(_ago(age))
        await note(store, "log_purged", "", f"{count} decisions older than {age.total_seconds():g} s")
    click.echo(str(count))
    return 0


def _ago(age: timedelta) -> datetime:
    now = datetime.now(UTC)
    return now - min(age, now - datetime(1970, 1, 1, tzinfo=UTC))
