"""What stands before every page: host, headers, session, CSRF, role."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite
from sqlalchemy import text

from sidecar.config import Admin
from sidecar.dashboard.cookies import digest
from sidecar.dashboard.guard import allowed_hosts
from sidecar.storage import Role, Store

POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
FORM = {"name": "new", "role": "viewer"}


async def test_every_answer_carries_the_security_headers(site: DashboardSite) -> None:
    """Pages, redirects, errors and files; pages are never kept by a cache."""
    for path in ("/login", "/account", "/nowhere", "/static/style.css", "/keys/../../etc", "/users"):
        for visitor in (site.ada, site.vic, site.stranger):
            page = await visitor.get(path)
            assert page.headers["Content-Security-Policy"].startswith(POLICY)
            assert "unsafe" not in page.headers["Content-Security-Policy"]
            assert page.headers["X-Content-Type-Options"] == "nosniff"
            assert page.headers["X-Frame-Options"] == "DENY"
            assert page.headers["Referrer-Policy"] == "same-origin"
            cached = "max-age" in page.headers["Cache-Control"]
            assert cached is path.startswith("/static") or page.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "localhost.evil.example", "", "[::1", "a@b"])
async def test_other_names_are_not_served(site: DashboardSite, host: str) -> None:
    """A name of somebody else that points at us (DNS rebinding) gets nothing, logged in or not."""
    page = await site.ada.get("/account", Host=host)
    assert page.status == 421
    assert "ada" not in page.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1234", "[::1]:8081", "localhost."])
async def test_this_machine_is_always_served(site: DashboardSite, host: str) -> None:
    """Whatever port a port-forward chose."""
    assert (await site.stranger.get("/login", Host=host)).status == 200


def test_the_configured_name_is_allowed_and_wildcards_are_no_names() -> None:
    """`admin.url` and a bound address; listening everywhere adds no name."""
    here = {"localhost", "127.0.0.1", "::1"}
    assert allowed_hosts(Admin(host="::", url="https://Side.example:8443")) == here | {"side.example"}
    assert allowed_hosts(Admin(host="10.1.2.3")) == here | {"10.1.2.3"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[bad"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_forms_of_other_sites_are_refused(site: DashboardSite, headers: dict[str, str]) -> None:
    """Even with a right token: the browser says where a request comes from."""
    token = (await site.ada.get("/users")).csrf
    assert (await site.ada.post("/users", {**FORM, "csrf": token}, **headers)).status == 403
    assert await site.store.admins.invited(datetime.now(UTC)) == []
    same_origin = {"Origin": site.base, "Sec-Fetch-Site": "same-origin"}
    assert (await site.ada.post("/users", {**FORM, "csrf": token}, **same_origin)).status == 200


async def test_forms_without_the_token_of_the_session_are_refused(site: DashboardSite) -> None:
    """Missing, empty, wrong, somebody else's, or that of the visitor before the login."""
    others = (await site.vic.get("/account")).csrf
    before = (await site.stranger.get("/login")).csrf
    await site.stranger.login("ada")
    for token in ("", "0" * 64, others, "é", before):
        assert (await site.stranger.post("/users", {**FORM, "csrf": token})).status == 403
    assert await site.store.admins.invited(datetime.now(UTC)) == []


async def test_a_login_form_needs_a_token_too(site: DashboardSite) -> None:
    """Nobody is logged in to somebody else's account by a foreign page."""
    fields = {"name": "ada", "password": dashboard.PASSWORD, "csrf": "0" * 64}
    assert (await site.stranger.post("/login", fields)).status == 403


async def test_viewers_look_and_change_nothing(site: DashboardSite) -> None:
    """Pages for admins are refused to viewers, their forms too; strangers are sent to the login."""
    token = (await site.vic.get("/account")).csrf
    for path in ("/users", "/audit"):
        assert (await site.vic.get(path)).status == 403
        assert (await site.stranger.get(path)).location == f"/login?next=%2F{path[1:]}"
    for path in ("/users", "/users/ada/role", "/users/ada/remove", "/users/ada/reset"):
        assert (await site.vic.post(path, {"csrf": token, "role": "viewer", "name": "x"})).status == 403
    assert (await site.store.admins.get("ada")).role is Role.ADMIN  # type: ignore[union-attr]


async def test_a_change_of_role_holds_for_the_next_request(site: DashboardSite) -> None:
    """Sessions carry no rights of their own."""
    assert (await site.ada.get("/users")).status == 200
    await site.store.admins.set_role("vic", Role.ADMIN)
    await site.store.admins.set_role("ada", Role.VIEWER)
    assert (await site.ada.get("/users")).status == 403
    assert (await site.vic.get("/users")).status == 200


@pytest.mark.parametrize(
    ("idle", "age", "holds"), [(59, 59, True), (61, 61, False), (0, 12 * 60 - 1, True), (0, 721, False)]
)
async def test_a_session_ends_when_idle_and_when_old(site: DashboardSite, idle: int, age: int, holds: bool) -> None:
    """After an hour unused, and after twelve hours in any case."""
    now = datetime.now(UTC).replace(tzinfo=None)
    async with site.store._database.write() as connection:
        change = text("UPDATE sessions SET used_at = :used, created_at = :begun WHERE name = 'ada'")
        times = {"used": str(now - timedelta(minutes=idle)), "begun": str(now - timedelta(minutes=age))}
        await connection.execute(change, times)
    assert (await site.ada.get("/account")).status == (200 if holds else 303)
    if holds and idle:
        sessions = await site.store.sessions.list("ada")
        assert sessions[0].used_at > datetime.now(UTC) - timedelta(minutes=1)


async def test_a_page_that_loads_itself_again_keeps_no_session_alive(site: DashboardSite) -> None:
    """Nobody may be sitting there any more."""
    long_ago = datetime.now(UTC) - timedelta(minutes=30)
    await site.store.sessions.touch(digest(site.ada.cookie()), long_ago)
    assert (await site.ada.get("/decisions?live=1")).status == 200
    assert (await site.store.sessions.list("ada"))[0].used_at == long_ago
    assert (await site.ada.get("/decisions")).status == 200
    assert (await site.store.sessions.list("ada"))[0].used_at > long_ago


async def test_the_store_knows_digests_of_tokens_alone(site: DashboardSite) -> None:
    """Who reads the database cannot use a session."""
    (session,) = await site.store.sessions.list("ada")
    assert session.digest == digest(site.ada.cookie())
    assert site.ada.cookie().encode() not in session.digest


async def test_a_store_that_is_gone_is_a_page_not_a_traceback(tmp_path: Path) -> None:
    """503, and none of the database's words."""
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db")
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as site:
        async with store._database.write() as connection:
            await connection.execute(text("DROP TABLE sessions"))
        page = await site.ada.get("/account")
        assert page.status == 503
        assert "sessions" not in page.text
    await store.close()


async def test_errors_keep_the_menu_for_those_who_are_logged_in(site: DashboardSite) -> None:
    """With a way back to the page before, of this site only; others see no menu."""
    for path in ("/nowhere", "/decisions/dec_unknown"):
        page = await site.vic.get(path, Referer=f"{site.base}/decisions?q=x")
        assert page.status == 404
        assert {"/policies", "/decisions?q=x"} <= set(page.reader.links), path
        assert "Log out" in page.text
    page = await site.vic.get("/?range=century")  # the page itself, with its fields
    assert (page.status, "Choose one of" in page.text, "/policies" in page.reader.links) == (400, True, True)
    for referer in ("http://evil.example/decisions", f"{site.base}//evil.example", "::", f"{site.base}/nowhere"):
        links = (await site.vic.get("/nowhere", Referer=referer)).reader.links
        assert not [link for link in links if "evil" in link]
    assert "/policies" not in (await site.stranger.get("/nowhere")).reader.links
    refused = await site.vic.post("/users", {"name": "x"}, page="/keys")
    assert (refused.status, "Log out" in refused.text) == (403, True)
