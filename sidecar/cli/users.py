"""`sidecar users`: lists and changes the dashboard's users beside a running server, with the same audit trail."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from sidecar.cli import output
from sidecar.cli.admin import note, open_store, warn_of_teams
from sidecar.cli.common import CONFIG, JSON, async_command, emit
from sidecar.dashboard.users import LONGEST_TEAMS, describe, read_teams
from sidecar.errors import RequestError
from sidecar.storage import Admin, ChangeResult, Invitation, Role, Store

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
    """List all users with their roles and teams, and open invitations."""
    async with open_store(config_file) as (store, _):
        accounts = await store.admins.list()
        names = {account.name for account in accounts}
        open_links = await store.admins.invited(datetime.now(UTC))
        invited = [invitation for invitation in open_links if invitation.name not in names]
    if as_json:
        emit([*map(_values, accounts), *map(_values_of_invited, invited)])
    else:
        _show(accounts, invited)
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
        limit = None if teams is None else _teams(teams)
        if role is not None:
            _check(name, await store.admins.set_role(name, Role(role)))
            await note(store, "user_role_changed", name, f"{account.role} to {role}")
        if teams is not None:
            await store.admins.set_teams(name, limit)
            await warn_of_teams(store, limit)
            await note(store, "user_teams_changed", name, describe(Role(role or account.role), limit))
        changed = await store.admins.get(name)
    output.err.print(f"{name}: {describe(changed.role, changed.teams) if changed else 'removed'}", markup=False)
    return 0


@users.command("remove", short_help="Remove a user.")
@click.argument("name")
@CONFIG
@async_command
async def remove_user(name: str, config_file: Path | None) -> int:
    """Remove the user called NAME, whose sessions end; a user of an OpenID provider can come back.

    Of somebody who is invited and no user yet, the invitation is withdrawn.
    """
    async with open_store(config_file) as (store, _):
        outcome = await store.admins.remove(name)
        if outcome is ChangeResult.UNKNOWN and await store.admins.withdraw(name):
            return await _withdrawn(store, name)
        _check(name, outcome)
        await note(store, "user_removed", name)
    output.err.print(f"{name}: removed", markup=False)
    return 0


@users.command("withdraw", short_help="Make an open one-time link void.")
@click.argument("name")
@CONFIG
@async_command
async def withdraw_link(name: str, config_file: Path | None) -> int:
    """Make the open one-time link of NAME void, of an invitation or of a password reset."""
    async with open_store(config_file) as (store, _):
        if not await store.admins.withdraw(name):
            raise RequestError(f"{name!r}: there is no open link for this name")
        return await _withdrawn(store, name)


async def _withdrawn(store: Store, name: str) -> int:
    await note(store, "invitation_withdrawn", name)
    output.err.print(f"{name}: the open link is void", markup=False)
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


def _values_of_invited(invitation: Invitation) -> dict[str, object]:
    return {"name": invitation.name, "role": invitation.role, "teams": invitation.teams, "login": "invited"} | {
        "invited_by": invitation.created_by,
        "expires_at": invitation.expires_at,
    }


def _show(accounts: list[Admin], invited: list[Invitation]) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("name", "role", "teams", "login", "last login"):
        table.add_column(column, overflow="fold")
    for account in accounts:
        sees_all = account.role is Role.ADMIN or account.teams is None
        teams = ALL if sees_all else ", ".join(account.teams or ()) or "none"
        latest = account.last_login_at.strftime("%Y-%m-%d %H:%M") if account.last_login_at else "-"
        login = "OpenID" if account.subject else "password"
        table.add_row(escape(account.name), str(account.role), teams, login, latest)
    for invitation in invited:
        teams = ALL if invitation.teams is None else ", ".join(invitation.teams)
        until = f"link until {invitation.expires_at:%Y-%m-%d %H:%M}"
        table.add_row(escape(str(invitation.name)), str(invitation.role), teams, "invited", until)
    output.out.print(table)
