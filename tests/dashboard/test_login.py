"""In and out of the dashboard, on a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import PASSWORD, DashboardSite

from sidecar.dashboard import bootstrap
from sidecar.dashboard.cookies import digest
from sidecar.dashboard.invitations import invite
from sidecar.storage import Invitation, Role, Store


async def test_the_first_link_makes_the_first_admin_and_works_once(store: Store, tmp_path: Path) -> None:
    """On every store: no default password, a name and a password of one's own, and then the door is shut."""
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        admin = await store.admins.get("ada")
        assert admin
        assert admin.role is Role.ADMIN
        assert admin.password.startswith("$argon2id$")
        assert await bootstrap(store, site.base) is None
        assert (await site.ada.get("/account")).status == 200


async def test_links_that_do_not_hold_are_gone(site: DashboardSite) -> None:
    """Used, expired, replaced or invented: 410, and no account."""
    used = await invite(site.store, "new", Role.ADMIN, "ada")
    replaced, used = used, await invite(site.store, "new", Role.ADMIN, "ada")
    expired, past = "x" * 43, datetime.now(UTC) - timedelta(seconds=1)
    await site.store.admins.invite(Invitation(digest(expired), "old", Role.ADMIN, "ada", past), past)
    assert (await site.stranger.join(used)).location == "/"
    for path in (used, replaced, f"/invitation/{expired}", "/invitation/invented"):
        assert (await site.visitor().get(path)).status == 410
    assert [user.name for user in await site.store.admins.list()] == ["ada", "new", "oda", "vic"]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"password": "short", "again": "short"}, "password"),
        ({"password": PASSWORD, "again": PASSWORD + "x"}, "again"),
        ({"password": "aaaaaaaaaaaaaaaa", "again": "aaaaaaaaaaaaaaaa"}, "password"),
    ],
)
async def test_a_password_must_be_worth_something(site: DashboardSite, fields: dict[str, str], wrong: str) -> None:
    """Too short, too plain or mistyped: the form comes back with the field marked, and the link still holds."""
    link = await invite(site.store, "new", Role.VIEWER, "ada")
    answer = await site.stranger.post(link, fields)
    assert answer.status == 400
    assert f'id="{wrong}-note"' in answer.body
    assert fields["password"] not in answer.body
    assert (await site.stranger.join(link)).status == 303


async def test_a_login_replaces_the_token_of_the_visitor(site: DashboardSite) -> None:
    """Session fixation: what the browser held before the login is worth nothing afterwards."""
    await site.stranger.get("/login")
    before = site.stranger.cookie()
    assert (await site.stranger.login("ada")).location == "/"
    assert site.stranger.cookie() != before
    planted = site.visitor()
    planted.session.cookie_jar.update_cookies({"sidecar_session": before})
    assert (await planted.get("/account")).location.startswith("/login")


async def test_a_second_login_ends_the_first_session_of_the_browser(site: DashboardSite) -> None:
    """One browser, one session."""
    before = site.vic.cookie()
    page = await site.vic.get("/account")
    await site.vic.post("/login", {"name": "ada", "password": PASSWORD, "csrf": page.csrf})
    assert "ada" in (await site.vic.get("/account")).text
    assert await site.store.sessions.list("vic") == []
    assert site.vic.cookie() != before


async def test_wrong_names_and_wrong_passwords_are_answered_alike(site: DashboardSite) -> None:
    """Nobody learns who has an account; known names are noted in the audit trail."""
    pages = [await site.stranger.login(name, "wrong password!") for name in ("ada", "nobody", "<b>'--", "A" * 300)]
    assert {page.status for page in pages} == {401}
    assert len({page.text for page in pages}) == 1
    events = await site.store.audit.query(action="login_failed")
    assert [event.target for event in events] == ["ada"]


async def test_tries_are_limited_per_account(site: DashboardSite) -> None:
    """After some wrong ones even the right password has to wait; others are not affected."""
    statuses = [(await site.stranger.login("ada", "wrong password!")).status for _ in range(9)]
    assert statuses == [401] * 8 + [429]
    late = await site.stranger.login("ada")
    assert late.status == 429
    assert int(late.headers["Retry-After"]) >= 1


async def test_tries_are_limited_per_address(site: DashboardSite) -> None:
    """Trying one password on many names is stopped as well."""
    statuses = [(await site.stranger.login(f"user{number}", PASSWORD)).status for number in range(12)]
    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_a_claimed_address_is_no_way_around_the_limit(site: DashboardSite, tmp_path: Path) -> None:
    """X-Forwarded-For is believed from a trusted proxy alone; the audit trail then names the client."""
    wrong = {"name": "nobody", "password": "wrong password!"}

    async def tries(base: str) -> set[int]:
        visitor = site.visitor()
        visitor.base = base
        headers = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(12)]
        return {(await visitor.post("/login", {**wrong, "name": f"n{n}"}, **headers[n])).status for n in range(12)}

    assert await tries(site.base) == {401, 429}
    behind = dashboard.settings(tmp_path, listen={"trusted_proxies": ["127.0.0.1"]})
    async with dashboard.serve(dashboard.dependencies(behind, site.store)) as base:
        assert await tries(base) == {401}
        ada = site.visitor()
        ada.base = base
        await ada.post("/login", {"name": "ada", "password": PASSWORD}, **{"X-Forwarded-For": "203.0.113.77"})
    assert (await site.store.audit.query(action="login"))[0].address == "203.0.113.77"


async def test_logging_out_ends_the_session_itself(site: DashboardSite) -> None:
    """Not just the cookie: who kept it cannot use it."""
    cookie = site.ada.cookie()
    assert (await site.ada.post("/logout", page="/account")).location == "/login"
    site.stranger.session.cookie_jar.update_cookies({"sidecar_session": cookie})
    assert (await site.stranger.get("/account")).location.startswith("/login")


async def test_logging_out_everywhere_ends_all_sessions(site: DashboardSite) -> None:
    """Of this account, and of no other."""
    await site.stranger.login("ada")
    await site.ada.post("/logout/everywhere", page="/account")
    assert (await site.stranger.get("/account")).location.startswith("/login")
    assert (await site.vic.get("/account")).status == 200


async def test_a_new_password_ends_all_other_sessions(site: DashboardSite) -> None:
    """The browser goes on with a new token; the old password is worth nothing."""
    await site.stranger.login("vic")
    new = "another four words"
    wrong = {"current": "wrong password!", "password": new, "again": new}
    assert (await site.vic.post("/account/password", wrong, page="/account")).status == 400
    right = {**wrong, "current": PASSWORD}
    assert (await site.vic.post("/account/password", right, page="/account")).location == "/account?done=password"
    assert "Your password is changed" in (await site.vic.get("/account?done=password")).text
    assert (await site.stranger.get("/account")).location.startswith("/login")
    assert (await site.stranger.login("vic")).status == 401
    assert (await site.stranger.login("vic", new)).status == 303


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
async def test_a_login_leads_to_a_page_of_ours(site: DashboardSite, next_page: str, leads: str) -> None:
    """To the page that was asked for, and never elsewhere."""
    assert (await site.stranger.login("ada", next=next_page)).location == leads


async def test_a_page_that_needs_a_login_is_remembered(site: DashboardSite) -> None:
    """Its address goes along to the login form."""
    assert (await site.stranger.get("/account?x=a%26b")).location == "/login?next=%2Faccount%3Fx%3Da%2526b"
    assert (await site.ada.get("/login?next=/account")).location == "/account"


async def test_all_errors_of_a_password_form_are_shown_at_once(site: DashboardSite) -> None:
    """Of an invitation password and repetition; of a change the current password, too."""
    link = (await invite(site.store, "eve", Role.VIEWER, "ada")).removeprefix(site.base)
    page = await site.visitor().post(link, {"name": "eve", "password": "short", "again": "other"})
    assert page.body.count('aria-invalid="true"') == 2
    assert "The two passwords differ." in page.text
    fields = {"current": "wrong", "password": "short", "again": "other"}
    page = await site.vic.post("/account/password", fields, page="/account")
    assert page.status == 400
    assert page.body.count('aria-invalid="true"') == 3


async def test_all_errors_of_the_form_of_the_first_account_are_shown_at_once(store: Store, tmp_path: Path) -> None:
    """On every store: name, password and repetition, each at its field; there is no account, and the link holds."""
    async with dashboard.serve(dashboard.dependencies(dashboard.settings(tmp_path), store)) as base:
        visitor, link = dashboard.Visitor(base), await bootstrap(store, base) or ""
        try:
            fields = {"name": "Ada Lovelace!", "password": "short", "again": "another"}
            page = await visitor.post(link.removeprefix(base), fields)
            assert (page.status, page.body.count('aria-invalid="true"')) == (400, 3)
            for name, words in (
                ("name", "A name has 1 to 64"),
                ("password", "at least 12 characters"),
                ("again", "The two passwords differ."),
            ):
                assert words in page.body.partition(f'id="{name}-note"')[2].partition("</p>")[0], name
            assert 'value="Ada Lovelace!"' in page.body
            assert not await store.admins.any()
            assert (await visitor.join(link, "ada")).location == "/"
        finally:
            await visitor.session.close()
