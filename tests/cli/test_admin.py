"""`sidecar admin` on a store that a dashboard serves."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import pwd
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
import yaml
from click.testing import CliRunner, Result
from dashboard import FINDING, PASSWORD, DashboardSite, log_row

from sidecar.cli.admin import admin
from sidecar.storage import Role, Store


@pytest.fixture
async def site(store_url: str, tmp_path: Path) -> AsyncIterator[DashboardSite]:
    """A dashboard on each kind of store, and a settings file that names the store."""
    chosen = dashboard.settings(tmp_path, store={"url": store_url}, admin={"url": "http://127.0.0.1:9"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"store": {"url": store_url}}), "utf-8")
    store = await Store.open(store_url)
    async with dashboard.open_site(chosen, store) as opened:
        yield opened
    await store.close()


async def run(folder: Path, *arguments: str) -> Result:
    """One command, in a thread of its own because it runs its own event loop."""
    return await asyncio.to_thread(CliRunner().invoke, admin, [*arguments, "--config", str(folder / "config.yaml")])


async def test_an_account_is_made_by_a_link(site: DashboardSite, tmp_path: Path) -> None:
    """The link is all that standard output holds, and works beside a running server."""
    result = await run(tmp_path, "create", "ops", "--role", "viewer", "--teams", "shop,ads")
    assert result.exit_code == 0, result.output
    link = result.stdout.strip()
    assert link.startswith("http://127.0.0.1:8081/invitation/")
    assert (await site.stranger.join(link.removeprefix("http://127.0.0.1:8081"))).location == "/"
    account = await site.store.admins.get("ops")
    assert account
    assert (account.role, account.teams) == (Role.VIEWER, ("ads", "shop"))
    event = (await site.store.audit.query(action="user_invited", actor="command line"))[0]
    assert (event.target, event.address) == ("ops", f"user {pwd.getpwuid(os.getuid()).pw_name}")


async def test_a_password_is_reset_by_a_link(site: DashboardSite, tmp_path: Path) -> None:
    """With the role that the account has; it ends all sessions when it is used."""
    link = (await run(tmp_path, "reset-password", "ada")).stdout.strip()
    assert (await site.ada.get("/account")).status == 200
    await site.stranger.join(link.removeprefix("http://127.0.0.1:8081"))
    assert (await site.ada.get("/account")).status == 303
    assert (await site.ada.login("ada", PASSWORD)).status == 303
    assert (await site.ada.get("/users")).status == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "ada"), "is there already"),
        (("create", "<b>"), "is no name"),
        (("reset-password", "nobody"), "There is no account"),
        (("create", "new", "--role", "god"), "god"),
        (("purge",), "--older-than"),
    ],
)
async def test_what_cannot_be_done_is_one_message(
    site: DashboardSite, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Exit code 2, and nothing is changed."""
    outcome = await run(tmp_path, *arguments)
    assert (outcome.exit_code, message in outcome.output) == (2, True)
    assert await site.store.admins.invited(datetime.now(UTC)) == []


async def test_the_scan_log_is_exported(site: DashboardSite, tmp_path: Path) -> None:
    """All of it, or the last days of it, to standard output alone."""
    now = datetime.now(UTC)
    await site.store.decisions.add([dashboard.log_row(1, at=now), dashboard.log_row(2, at=now - timedelta(days=40))])
    lines = (await run(tmp_path, "export")).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [dashboard.log_row(1).id, dashboard.log_row(2).id]
    rows = list(csv.DictReader((await run(tmp_path, "export", "--format", "csv", "--since", "7d")).stdout.splitlines()))
    assert [row["id"] for row in rows] == [dashboard.log_row(1).id]
    assert len(await site.store.audit.query(action="log_exported")) == 2


async def test_old_decisions_are_purged(site: DashboardSite, tmp_path: Path) -> None:
    """As many as it says, and the audit trail knows; an age older than everything deletes nothing."""
    now = datetime.now(UTC)
    await site.store.decisions.add([dashboard.log_row(1, at=now), dashboard.log_row(2, at=now - timedelta(days=40))])
    for age, count in (("9999999d", "0"), ("30d", "1"), ("0s", "1")):
        outcome = await run(tmp_path, "purge", "--older-than", age)
        assert (outcome.exit_code, outcome.stdout.strip()) == (0, count)
    assert await site.store.decisions.count() == 0
    assert len(await site.store.audit.query(action="log_purged")) == 3


async def test_one_decision_is_shown(site: DashboardSite, tmp_path: Path) -> None:
    """With its findings and its client, without the text unless asked, and safe on a terminal."""
    excepted = {**FINDING, "rule": "INJ-2", "decides": False, "excepted": True}
    row = log_row(text="ignore \x1b[31m[red]this", client="203.0.113.9", findings=[FINDING, excepted], key_id=None)
    await site.store.decisions.add([row])
    result = await run(tmp_path, "decision", f" {row.id}")
    assert result.exit_code == 0, result.output
    for words in ("block", "INJ-1", "decides", "excepted", "prompt 7-39", "203.0.113.9", "0.9000"):
        assert words in result.stdout
    assert "ignore" not in result.stdout
    shown = (await run(tmp_path, "decision", row.id, "--text")).stdout
    assert "ignore \\x1b[31m[red]this" in shown
    as_json = json.loads((await run(tmp_path, "decision", row.id, "--json")).stdout)
    assert (as_json["id"], as_json["client"], as_json["text"]) == (row.id, "203.0.113.9", None)
    assert json.loads((await run(tmp_path, "decision", row.id, "--json", "--text")).stdout)["text"] == row.text
    absent = await run(tmp_path, "decision", "dec_gone")
    assert (absent.exit_code, "log.retention" in absent.stderr) == (2, True)
