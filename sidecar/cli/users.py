"""`sidecar users`: lists and changes the dashboard's users beside a running server, with the same audit trail."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from sidecar.cli import output
from sidecar.cli.admin import note, open_store
from sidecar.cli.common import CONFIG, JSON, async_command, emit
from sidecar.dashboard.users import LONGEST_TEAMS, describe, read_teams
from sidecar.errors import RequestError
from sidecar.storage import Admin, ChangeResult, Role, Store

ALL = "all"
"""The value with which `change` removes the limit to teams."""
_PROBLEMS = {
    ChangeResult.UNKNOWN: "there is no such user",
    ChangeResult.LAST_ADMIN: "one admin must remain, with a password of their own",
}


@click.group(short_help="Users of the dashboard: their roles and teams.")
def users() -> None:
    """List users of the dashboard, change their roles and teams, remove them; works beside a running server."""


@users.command("list")
@JSON
@CONFIG
@async_command
async def list_users(as_json: bool, config_file: Path | None) -> int:
    """List all users with their roles and teams."""
    async with open_store(config_file) as (store, _):
        accounts = await store.admins.list()
    if as_json:
        emit([_values(account) for account in accounts])
    else:
        _show(accounts)
    return 0


@users.command("change", short_help="Change the role or the teams of a user.")
@click.argument("name")
@click.option("--role", type=click.Choice([str(role) for role in Role]), help="What the user may do.")
@click.option("--teams", help="Whose keys and decisions the user sees, such as shop,search; all: everybody's.")
@CONFIG
@async_command
async def change_user(name: str, role: str | None, teams: str | None, config_file: Path | None) -> int:
    """Change the role or the teams of the user called NAME, from the next request on. Admins see all teams."""
    async with open_store(config_file) as (store, _):
        account = await _local(store, name)
        if teams is not None:
            limit = _teams(teams)
            await store.admins.set_teams(name, limit)
            await note(store, "user_teams_changed", name, describe(account.role, limit))
        if role is not None:
            _check(name, await store.admins.set_role(name, Role(role)))
            await note(store, "user_role_changed", name, f"{account.role} to {role}")
        changed = await store.admins.get(name)
    output.err.print(f"{name}: {describe(changed.role, changed.teams) if changed else 'removed'}", markup=False)
    return 0


@users.command("remove", short_help="Remove a user.")
@click.argument("name")
@CONFIG
@async_command
async def remove_user(name: str, config_file: Path | None) -> int:
    """Remove the user called NAME, whose sessions end; a user of an OpenID provider can come back."""
    async with open_store(config_file) as (store, _):
        _check(name, await store.admins.remove(name))
        await note(store, "user_removed", name)
    output.err.print(f"{name}: removed", markup=False)
    return 0


async def _local(store: Store, name: str) -> Admin:
    """The account, if it is kept here. Raises `RequestError`."""
    account = await store.admins.get(name)
    if account is None:
        raise RequestError(f"{name!r}: {_PROBLEMS[ChangeResult.UNKNOWN]}")
    if account.subject is not None:
        raise RequestError(f"{name!r}: role and teams are kept at the OpenID provider (admin.groups)")
    return account


def _check(name: str, outcome: ChangeResult) -> None:
    if outcome in _PROBLEMS:
        raise RequestError(f"{name!r}: {_PROBLEMS[outcome]}")


def _teams(text: str) -> tuple[str, ...] | None:
    """The teams of the option. Raises `RequestError`."""
    if text == ALL:
        return None
    if not (teams := read_teams(text[:LONGEST_TEAMS])):
        raise RequestError("--teams: name at least one team, or all")
    return teams


def _values(account: Admin) -> dict[str, object]:
    by = "OpenID" if account.subject else "password"
    return {"name": account.name, "role": account.role, "teams": account.teams, "login": by} | {
        "created_at": account.created_at,
        "last_login_at": account.last_login_at,
    }


def _show(accounts: list[Admin]) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("name", "role", "teams", "login", "last login"):
        table.add_column(column, overflow="fold")
    for account in accounts:
        sees_all = account.role is Role.ADMIN or account.teams is None
        teams = ALL if sees_all else ", ".join(account.teams or ()) or "none"
        latest = account.last_login_at.strftime("%Y-%m-%d %H:%M") if account.last_login_at else "-"
        login = "OpenID" if account.subject else "password"
        table.add_row(escape(account.name), str(account.role), teams, login, latest)
    output.out.print(table)
