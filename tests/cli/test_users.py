"""`sidecar users` on a store that a dashboard serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import dashboard
import pytest
import yaml
from click.testing import CliRunner, Result
from dashboard import DashboardSite

from sidecar.cli.admin import admin
from sidecar.cli.users import users
from sidecar.storage import Admin, Role, Store


@pytest.fixture
async def site(store_url: str, tmp_path: Path) -> AsyncIterator[DashboardSite]:
    """A dashboard on each kind of store, and a settings file that names the store."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"store": {"url": store_url}}), "utf-8")
    store = await Store.open(store_url)
    chosen = dashboard.settings(tmp_path, store={"url": store_url})
    async with dashboard.open_site(chosen, store) as opened:
        external = Admin("oidc:olga", Role.ADMIN, "", datetime.now(UTC), subject="https://idp.example 1")
        await store.admins.sign_in(external)
        yield opened
    await store.close()


async def run(folder: Path, *arguments: str) -> Result:
    """One command, in a thread of its own because it runs its own event loop."""
    return await asyncio.to_thread(CliRunner().invoke, users, [*arguments, "--config", str(folder / "config.yaml")])


async def test_users_are_listed_with_roles_and_teams(site: DashboardSite, tmp_path: Path) -> None:
    """As a table, and as JSON without passwords and identities."""
    await site.store.admins.set_teams("vic", ["shop", "ads"])
    assert "ads, shop" in (await run(tmp_path, "list")).stdout
    result = (await run(tmp_path, "list", "--json")).stdout
    rows = [(row["name"], row["role"], row["teams"], row["login"]) for row in json.loads(result)]
    assert rows == [
        ("ada", "admin", None, "password"),
        ("oda", "operator", None, "password"),
        ("oidc:olga", "admin", None, "OpenID"),
        ("vic", "viewer", ["ads", "shop"], "password"),
    ]
    assert "argon2" not in result
    assert "idp.example" not in result


async def test_role_and_teams_change_beside_a_running_server(site: DashboardSite, tmp_path: Path) -> None:
    """From the next request on, and in the audit trail."""
    assert (await site.vic.get("/playground")).status == 403
    result = await run(tmp_path, "change", "vic", "--role", "operator", "--teams", "shop, ads")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, "vic: operator, teams ads, shop")
    assert (await site.vic.get("/playground")).status == 200
    assert "teams: ads, shop" in (await site.vic.get("/account")).text
    events = [(event.action, event.target, event.detail) for event in await site.store.audit.query(limit=2)]
    assert events == [
        ("user_teams_changed", "vic", "operator, teams ads, shop"),
        ("user_role_changed", "vic", "viewer to operator"),
    ]
    assert (await run(tmp_path, "change", "vic", "--teams", "all")).exit_code == 0
    assert "all teams" in (await site.vic.get("/account")).text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("change", "ada", "--role", "operator"), "one admin must remain"),
        (("change", "ada", "--role", "viewer", "--teams", "shop"), "one admin must remain"),
        (("change", "vic", "--teams", ","), "no names of teams"),
        (("remove", "ada"), "one admin must remain"),
        (("change", "nobody", "--role", "admin"), "no such user"),
        (("remove", "nobody"), "no such user"),
        (("change", "oidc:olga", "--role", "viewer"), "kept at the OpenID provider"),
        (("change", "vic", "--teams", "not a team!"), "At most 50 teams"),
        (("change", "vic", "--teams", " "), "at least one team"),
    ],
)
async def test_what_must_not_be_is_refused(
    site: DashboardSite, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    """The last admin with a password, unknown users, those of a provider, odd teams: nothing changes."""
    before = await site.store.admins.list()
    result = await run(tmp_path, *arguments)
    assert result.exit_code != 0
    assert words in f"{result.exception}{result.output}"
    assert await site.store.admins.list() == before


async def test_a_user_is_removed(site: DashboardSite, tmp_path: Path) -> None:
    """With all sessions."""
    assert (await run(tmp_path, "remove", "vic")).exit_code == 0
    assert (await site.vic.get("/account")).location.startswith("/login")
    assert (await site.store.audit.query(limit=1))[0].action == "user_removed"


async def test_a_user_of_a_provider_gets_no_password(site: DashboardSite, tmp_path: Path) -> None:
    """No link is printed for one."""
    arguments = ["reset-password", "oidc:olga", "--config", str(tmp_path / "config.yaml")]
    result = await asyncio.to_thread(CliRunner().invoke, admin, arguments)
    assert (result.exit_code != 0, result.stdout) == (True, "")


async def invited(folder: Path, *arguments: str) -> Result:
    """The result of `admin create`."""
    command = ["create", *arguments, "--config", str(folder / "config.yaml")]
    return await asyncio.to_thread(CliRunner().invoke, admin, command)


async def test_an_invitation_is_listed_and_withdrawn(site: DashboardSite, tmp_path: Path) -> None:
    """By `withdraw`, and by `remove` of somebody who is no user yet; reset links, too."""
    await invited(tmp_path, "tom", "--role", "viewer", "--teams", "shop")
    rows = json.loads((await run(tmp_path, "list", "--json")).stdout)
    assert [(row["name"], row["login"]) for row in rows if row["name"] == "tom"] == [("tom", "invited")]
    assert "invited" in (await run(tmp_path, "list")).stdout
    assert (await run(tmp_path, "remove", "tom")).exit_code == 0
    result = await run(tmp_path, "withdraw", "tom")
    assert (result.exit_code != 0, "no open link" in f"{result.exception}{result.output}") == (True, True)
    await site.ada.post("/users/vic/reset", page="/users")
    assert (await run(tmp_path, "withdraw", "vic")).exit_code == 0
    assert await site.store.admins.invited(datetime.now(UTC)) == []
    events = await site.store.audit.query(action="invitation_withdrawn")
    assert [event.target for event in events] == ["vic", "tom"]


async def test_inviting_again_says_what_differs(site: DashboardSite, tmp_path: Path) -> None:
    """And a team that no key has is named."""
    first = await invited(tmp_path, "tom", "--role", "viewer", "--teams", "shop")
    assert "no key has this team yet: shop" in first.stderr
    again = await invited(tmp_path, "tom", "--role", "admin")
    assert again.exit_code != 0
    assert "as viewer, teams shop; this would be admin, all teams" in f"{again.exception}{again.output}"
    (invitation,) = await site.store.admins.invited(datetime.now(UTC))
    assert (invitation.role, invitation.teams) == (Role.VIEWER, ("shop",))
    assert "no key has this team yet: ads" in (await run(tmp_path, "change", "vic", "--teams", "ads")).stderr
