"""The page of accounts."""

from __future__ import annotations

import pytest
from dashboard import PASSWORD, DashboardSite, api_key

from sidecar.storage import Role


def link_in(text: str) -> str:
    """The one-time link that a page shows."""
    return next(word for word in text.split() if "/invitation/" in word)


async def test_somebody_invited_chooses_a_password_and_enters(site: DashboardSite) -> None:
    """The link is shown once, works once, and everything is in the audit trail."""
    shown = await site.ada.post("/users", {"name": "New.Person", "role": "viewer"})
    link = link_in(shown.text)
    assert link.startswith(site.base)
    waiting = await site.ada.get("/users")
    assert "new.person" in waiting.text
    assert "/invitation/" not in waiting.body
    assert (await site.stranger.join(link)).location == "/"
    assert "new.person viewer" in (await site.stranger.get("/account")).text
    events = [(event.actor, event.action, event.target) for event in await site.store.audit.query(limit=2)]
    assert events == [
        ("new.person", "invitation_accepted", "new.person"),
        ("ada", "user_invited", "new.person"),
    ]


@pytest.mark.parametrize("name", ["", "ada", "a b", "<script>alert(1)</script>", "x" * 65, "../users", "\u202eeve"])
async def test_odd_and_taken_names_are_refused_harmlessly(site: DashboardSite, name: str) -> None:
    """The form comes back with what was typed, escaped, and the reason."""
    page = await site.ada.post("/users", {"name": name, "role": "viewer"})
    assert page.status == 400
    assert page.reader.tags.count("script") == 1
    assert 'id="name-note"' in page.body


async def test_a_reset_link_replaces_the_password(site: DashboardSite) -> None:
    """The old one holds until the link is used; then it and all sessions are void."""
    link = link_in((await site.ada.post("/users/vic/reset", page="/users")).text)
    assert (await site.vic.get("/account")).status == 200
    new = "entirely different words"
    await site.stranger.post(link.removeprefix(site.base), {"password": new, "again": new})
    assert (await site.vic.get("/account")).status == 303
    assert (await site.vic.login("vic", PASSWORD)).status == 401
    assert (await site.vic.login("vic", new)).status == 303


async def test_roles_are_changed_and_accounts_removed(site: DashboardSite) -> None:
    """With a word of confirmation and an entry in the audit trail."""
    assert (await site.ada.post("/users/vic/role", {"role": "admin"}, page="/users")).location.endswith("role_changed")
    assert (await site.store.admins.get("vic")).role is Role.ADMIN  # type: ignore[union-attr]
    assert "The role is changed" in (await site.ada.get("/users?done=user_role_changed")).text
    assert (await site.ada.post("/users/vic/remove", page="/users")).status == 303
    assert (await site.vic.get("/account")).status == 303
    assert [event.action for event in await site.store.audit.query(limit=2)] == ["user_removed", "user_role_changed"]


async def test_one_admin_remains(site: DashboardSite) -> None:
    """The page says so; an unknown account is not found."""
    for path, fields in (("/users/ada/remove", {}), ("/users/ada/role", {"role": "viewer"})):
        page = await site.ada.post(path, fields, page="/users")
        assert (page.status, "One admin must remain" in page.text) == (400, True)
    for path in ("/users/nobody/remove", "/users/nobody/role", "/users/nobody/reset"):
        assert (await site.ada.post(path, {"role": "viewer"}, page="/users")).status == 404
    assert (await site.ada.post("/users/vic/role", {"role": "god"}, page="/users")).status == 400


async def test_teams_are_given_with_the_invitation_and_changed_later(site: DashboardSite) -> None:
    """In force from the next request on; odd names come back with the reason, and all is in the audit trail."""
    page = await site.ada.post("/users", {"name": "new", "role": "operator", "teams": "shop, ads"})
    assert (await site.stranger.join(link_in(page.text))).location == "/"
    assert "teams: ads, shop" in (await site.stranger.get("/account")).text
    odd = await site.ada.post("/users/new/teams", {"teams": "<script>"}, page="/users")
    assert (odd.status, odd.reader.tags.count("script")) == (400, 1)
    assert (await site.ada.post("/users/new/teams", {"teams": ", ,"}, page="/users")).status == 400
    assert "teams: ads, shop" in (await site.stranger.get("/account")).text
    changed = await site.ada.post("/users/new/teams", {"teams": ""}, page="/users")
    assert changed.location == "/users?done=user_teams_changed"
    assert "all teams" in (await site.stranger.get("/account")).text
    assert (await site.ada.post("/users/nobody/teams", {"teams": ""}, page="/users")).status == 404
    events = [(event.action, event.target, event.detail) for event in await site.store.audit.query(limit=3)]
    assert events == [
        ("user_teams_changed", "new", "teams ads, shop to all teams"),
        ("invitation_accepted", "new", "operator"),
        ("user_invited", "new", "operator, teams ads, shop"),
    ]


async def test_an_open_invitation_is_withdrawn(site: DashboardSite) -> None:
    """Its link is void at once; a reset link of an account, too; without a link there is nothing to withdraw."""
    link = link_in((await site.ada.post("/users", {"name": "tom", "role": "viewer"})).text)
    assert "/users/tom/withdraw" in [form["action"] for form in (await site.ada.get("/users")).reader.forms]
    assert (await site.ada.post("/users/tom/withdraw", page="/users")).location == "/users?done=invitation_withdrawn"
    assert (await site.stranger.get(link.removeprefix(site.base))).status == 410
    assert "tom" not in (await site.ada.get("/users")).text
    await site.ada.post("/users/vic/reset", page="/users")
    assert (await site.ada.post("/users/vic/withdraw", page="/users")).status == 303
    assert (await site.ada.post("/users/vic/withdraw", page="/users")).status == 404
    events = [(event.action, event.target) for event in await site.store.audit.query(action="invitation_withdrawn")]
    assert events == [("invitation_withdrawn", "vic"), ("invitation_withdrawn", "tom")]


async def test_inviting_again_changes_nothing_silently(site: DashboardSite) -> None:
    """Something else is refused with what differs; the same once more is a new link in place of the old one."""
    terms = {"name": "tom", "role": "operator", "teams": "shop"}
    first = link_in((await site.ada.post("/users", terms)).text)
    refusal = await site.ada.post("/users", {"name": "tom", "role": "admin"})
    assert refusal.status == 409
    assert "invited already, as operator, teams shop; this would be admin, all teams" in refusal.text
    second = link_in((await site.ada.post("/users", terms)).text)
    assert (await site.stranger.get(first.removeprefix(site.base))).status == 410
    assert (await site.stranger.join(second)).location == "/"
    assert "operator, teams: shop" in (await site.stranger.get("/account")).text.replace(" ,", ",")


async def test_a_team_that_no_key_has_is_named(site: DashboardSite) -> None:
    """When the link is made, and in the list until a key has it."""
    await site.store.keys.add(api_key("abcdefgh", "x", "shop"), b"x" * 32)
    page = await site.ada.post("/users", {"name": "tom", "role": "viewer", "teams": "shop shpo"})
    assert "No key has this team yet: shpo." in page.text
    listed = await site.ada.get("/users")
    assert listed.text.count("no key has this team yet") == 1
    await site.store.keys.add(api_key("abcdefgi", "y", "shpo"), b"y" * 32)
    assert "no key has this team" not in (await site.ada.get("/users")).text
