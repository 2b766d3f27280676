"""In and out of the dashboard, on a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import PASSWORD, Desk

from sidecar.dashboard import bootstrap
from sidecar.dashboard.cookies import digest
from sidecar.dashboard.invitations import invite
from sidecar.storage import Invitation, Role, Store


async def test_the_first_link_makes_the_first_admin_and_works_once(store: Store, tmp_path: Path) -> None:
    """On every store: no default password, a name and a password of one's own, and then the door is shut."""
    async with dashboard.desk(dashboard.settings(tmp_path), store) as desk:
        admin = await store.admins.get("ada")
        assert admin
        assert admin.role is Role.ADMIN
        assert admin.password.startswith("$argon2id$")
        assert await bootstrap(store, desk.base) is None
        assert (await desk.ada.get("/account")).status == 200


async def test_links_that_do_not_hold_are_gone(desk: Desk) -> None:
    """Used, expired, replaced or invented: 410, and no account."""
    used = await invite(desk.store, "new", Role.ADMIN, "ada")
    replaced, used = used, await invite(desk.store, "new", Role.ADMIN, "ada")
    expired, past = "x" * 43, datetime.now(UTC) - timedelta(seconds=1)
    await desk.store.admins.invite(Invitation(digest(expired), "old", Role.ADMIN, "ada", past), past)
    assert (await desk.stranger.join(used)).location == "/"
    for path in (used, replaced, f"/invitation/{expired}", "/invitation/invented"):
        assert (await desk.visitor().get(path)).status == 410
    assert [user.name for user in await desk.store.admins.list()] == ["ada", "new", "vic"]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"password": "short", "again": "short"}, "password"),
        ({"password": PASSWORD, "again": PASSWORD + "x"}, "again"),
        ({"password": "aaaaaaaaaaaaaaaa", "again": "aaaaaaaaaaaaaaaa"}, "password"),
    ],
)
async def test_a_password_must_be_worth_something(desk: Desk, fields: dict[str, str], wrong: str) -> None:
    """Too short, too plain or mistyped: the form comes back with the field marked, and the link still holds."""
    link = await invite(desk.store, "new", Role.VIEWER, "ada")
    answer = await desk.stranger.post(link, fields)
    assert answer.status == 400
    assert f'id="{wrong}-note"' in answer.body
    assert fields["password"] not in answer.body
    assert (await desk.stranger.join(link)).status == 303


async def test_a_login_replaces_the_token_of_the_visitor(desk: Desk) -> None:
    """Session fixation: what the browser held before the login is worth nothing afterwards."""
    await desk.stranger.get("/login")
    before = desk.stranger.cookie()
    assert (await desk.stranger.login("ada")).location == "/"
    assert desk.stranger.cookie() != before
    planted = desk.visitor()
    planted.session.cookie_jar.update_cookies({"sidecar_session": before})
    assert (await planted.get("/account")).location.startswith("/login")


async def test_a_second_login_ends_the_first_session_of_the_browser(desk: Desk) -> None:
    """One browser, one session."""
    before = desk.vic.cookie()
    page = await desk.vic.get("/account")
    await desk.vic.post("/login", {"name": "ada", "password": PASSWORD, "csrf": page.csrf})
    assert "ada" in (await desk.vic.get("/account")).text
    assert await desk.store.sessions.list("vic") == []
    assert desk.vic.cookie() != before


async def test_wrong_names_and_wrong_passwords_are_answered_alike(desk: Desk) -> None:
    """Nobody learns who has an account; known names are noted in the audit trail."""
    pages = [await desk.stranger.login(name, "wrong password!") for name in ("ada", "nobody", "<b>'--", "A" * 300)]
    assert {page.status for page in pages} == {401}
    assert len({page.text for page in pages}) == 1
    events = await desk.store.audit.query(action="login_failed")
    assert [event.target for event in events] == ["ada"]


async def test_tries_are_limited_per_account(desk: Desk) -> None:
    """After some wrong ones even the right password has to wait; others are not affected."""
    statuses = [(await desk.stranger.login("ada", "wrong password!")).status for _ in range(9)]
    assert statuses == [401] * 8 + [429]
    late = await desk.stranger.login("ada")
    assert late.status == 429
    assert int(late.headers["Retry-After"]) >= 1


async def test_tries_are_limited_per_address(desk: Desk) -> None:
    """Trying one password on many names is stopped as well."""
    statuses = [(await desk.stranger.login(f"user{number}", PASSWORD)).status for number in range(12)]
    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_a_claimed_address_is_no_way_around_the_limit(desk: Desk, tmp_path: Path) -> None:
    """X-Forwarded-For is believed from a trusted proxy alone; the audit trail then names the client."""
    wrong = {"name": "nobody", "password": "wrong password!"}

    async def tries(base: str) -> set[int]:
        visitor = desk.visitor()
        visitor.base = base
        headers = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(12)]
        return {(await visitor.post("/login", {**wrong, "name": f"n{n}"}, **headers[n])).status for n in range(12)}

    assert await tries(desk.base) == {401, 429}
    behind = dashboard.settings(tmp_path, listen={"trusted_proxies": ["127.0.0.1"]})
    async with dashboard.serve(dashboard.dependencies(behind, desk.store)) as base:
        assert await tries(base) == {401}
        ada = desk.visitor()
        ada.base = base
        await ada.post("/login", {"name": "ada", "password": PASSWORD}, **{"X-Forwarded-For": "203.0.113.77"})
    assert (await desk.store.audit.query(action="login"))[0].address == "203.0.113.77"


async def test_logging_out_ends_the_session_itself(desk: Desk) -> None:
    """Not just the cookie: who kept it cannot use it."""
    cookie = desk.ada.cookie()
    assert (await desk.ada.post("/logout", page="/account")).location == "/login"
    desk.stranger.session.cookie_jar.update_cookies({"sidecar_session": cookie})
    assert (await desk.stranger.get("/account")).location.startswith("/login")


async def test_logging_out_everywhere_ends_all_sessions(desk: Desk) -> None:
    """Of this account, and of no other."""
    await desk.stranger.login("ada")
    await desk.ada.post("/logout/everywhere", page="/account")
    assert (await desk.stranger.get("/account")).location.startswith("/login")
    assert (await desk.vic.get("/account")).status == 200


async def test_a_new_password_ends_all_other_sessions(desk: Desk) -> None:
    """The browser goes on with a new token; the old password is worth nothing."""
    await desk.stranger.login("vic")
    new = "another four words"
    wrong = {"current": "wrong password!", "password": new, "again": new}
    assert (await desk.vic.post("/account/password", wrong, page="/account")).status == 400
    right = {**wrong, "current": PASSWORD}
    assert (await desk.vic.post("/account/password", right, page="/account")).location == "/account?done=password"
    assert "Your password is changed" in (await desk.vic.get("/account?done=password")).text
    assert (await desk.stranger.get("/account")).location.startswith("/login")
    assert (await desk.stranger.login("vic")).status == 401
    assert (await desk.stranger.login("vic", new)).status == 303


@pytest.mark.parametrize(
    ("next_page", "leads"),
    [
        ("/keys?x=1", "/keys?x=1"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
    ],
)
async def test_a_login_leads_to_a_page_of_ours(desk: Desk, next_page: str, leads: str) -> None:
    """To the page that was asked for, and never elsewhere."""
    assert (await desk.stranger.login("ada", next=next_page)).location == leads


async def test_a_page_that_needs_a_login_is_remembered(desk: Desk) -> None:
    """Its address goes along to the login form."""
    assert (await desk.stranger.get("/account?x=a%26b")).location == "/login?next=%2Faccount%3Fx%3Da%2526b"
    assert (await desk.ada.get("/login?next=/account")).location == "/account"
