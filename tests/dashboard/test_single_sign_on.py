"""Twin of sidecar/dashboard/single_sign_on.py: logins at a real provider process, through its login page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import dashboard
import pytest
from dashboard import DashboardSite, Page, Visitor
from identity_provider import CLIENT, SECRET, Process, open_provider

from sidecar.dashboard.single_sign_on import groups_in, is_valid_state, new_state, target_of
from sidecar.storage import Role, Store

USERS: dict[str, dict[str, Any]] = {
    "olga": {"groups": ["shop-dev", "unrelated"]},
    "root": {"groups": ["platform"]},
    "nemo": {"groups": ["unrelated"]},
    "Eve": {"groups": ["shop-dev"], "email": "ada@example.com", "sub": "somebody-else"},
}
GROUPS = {"shop-dev": {"role": "operator", "teams": ["shop"]}, "platform": {"role": "admin"}}


@pytest.fixture
def provider() -> Iterator[Process]:
    """A provider that knows the users."""
    with open_provider(**USERS) as process:
        yield process


@pytest.fixture
async def site(provider: Process, tmp_path: Path) -> AsyncIterator[DashboardSite]:
    """A dashboard whose users may log in there."""
    (tmp_path / "secret").write_text(SECRET + "\n", "utf-8")
    oidc = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret_file": str(tmp_path / "secret")}
    admin = {"port": 0, "groups": GROUPS, "oidc": {**oidc, "domains": ["example.com"]}}
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db")
    async with dashboard.open_site(dashboard.settings(tmp_path, admin=admin), store) as opened:
        yield opened
    await store.close()


async def at_provider(visitor: Visitor, user: str, path: str = "/login/oidc") -> str:
    """Follow the link of the login page, log in at the provider; the path with which it sends the browser back."""
    begin = await visitor.get(path)
    assert begin.status == 303, begin.text
    async with visitor.session.get(begin.location) as page:
        assert page.status == 200
    async with visitor.session.post(begin.location, data={"user": user}, allow_redirects=False) as answer:
        return answer.headers["Location"].removeprefix(visitor.base)


async def log_in(visitor: Visitor, user: str, path: str = "/login/oidc") -> Page:
    """The whole login."""
    return await visitor.get(await at_provider(visitor, user, path))


async def test_a_user_logs_in_with_role_and_teams_of_their_groups(site: DashboardSite) -> None:
    """From the link on the login page to the page that was asked for, with an entry in the audit trail."""
    asked = await site.stranger.get("/keys?team=shop")
    links = (await site.stranger.get(asked.location)).reader.links
    (link,) = [link for link in links if link.startswith("/login/oidc")]
    assert (await log_in(site.stranger, "olga", link)).location == "/keys"
    page = await site.stranger.get("/account")
    assert "oidc:olga@example.com operator" in page.text
    assert "teams: shop" in page.text
    assert "Current password" not in page.text
    events = [(event.actor, event.action, event.detail) for event in await site.store.audit.query(limit=2)]
    assert events == [
        ("oidc:olga@example.com", "user_role_changed", "new to operator, teams shop, by the OpenID provider"),
        ("oidc:olga@example.com", "login", "OpenID"),
    ]


async def test_a_login_replaces_the_cookie_and_a_callback_works_once(site: DashboardSite) -> None:
    """Session fixation and replay: neither the cookie of before nor the code is worth anything afterwards."""
    callback = await at_provider(site.stranger, "olga")
    before, planted = site.stranger.cookie(), site.visitor()
    assert (await site.stranger.get(callback)).location == "/"
    assert site.stranger.cookie() != before
    planted.session.cookie_jar.update_cookies({"sidecar_session": before})
    assert (await planted.get("/account")).location.startswith("/login")
    replayed = await planted.get(callback)  # with the right cookie, so that the provider has to refuse the code
    assert (replayed.status, "Start again" in replayed.text) == (403, True)
    assert (await planted.get("/account")).location.startswith("/login")


async def test_a_callback_of_another_browser_is_refused(site: DashboardSite) -> None:
    """Login CSRF: nobody is logged in to somebody else's account by a link; nor with a changed or an old state."""
    callback = await at_provider(site.stranger, "olga")
    other = site.visitor()
    await other.get("/login")
    assert (await other.get(callback)).status == 403
    for wrong in (callback.replace("state=", "state=x"), callback.partition("&state=")[0], callback + "x"):
        assert (await site.visitor().get(wrong)).status == 403
    altered = callback.replace("&state=", "&state=A", 1)
    assert (await site.stranger.get(altered)).status == 403
    assert (await site.stranger.get(callback)).location == "/"


@pytest.mark.parametrize(
    "faults",
    [
        {"claims": {"nonce": "another"}},
        {"claims": {"nonce": None}},
        {"claims": {"aud": "another"}},
        {"claims": {"aud": [CLIENT, "another"]}},
        {"claims": {"aud": None}},
        {"claims": {"azp": "another"}},
        {"claims": {"iss": "https://evil.example"}},
        {"claims": {"exp": 1_700_000_000}},
        {"claims": {"exp": None}},
        {"claims": {"exp": "soon"}},
        {"claims": {"iat": 4_000_000_000}},
        {"claims": {"iat": None}},
        {"claims": {"nbf": 4_000_000_000}},
        {"claims": {"sub": ""}},
        {"claims": {"sub": None}},
        {"alg": "none"},
        {"alg": "HS256"},
        {"key": "foreign"},
        {"answer": {"iss": "https://evil.example"}},
        {"answer": {"code": ""}},
        {"answer": {"code": "of-somebody-else"}},
    ],
    ids=str,
)
async def test_what_is_not_issued_for_this_login_is_refused(
    site: DashboardSite, provider: Process, faults: dict[str, Any]
) -> None:
    """Wrong nonce, audience, issuer, time, subject, algorithm, key or code: an error page, no session, no account."""
    provider.post("/control", faults=faults)
    page = await log_in(site.stranger, "root")
    assert (page.status, "Start again" in page.text) == (403, True)
    assert (await site.stranger.get("/account")).location.startswith("/login")
    assert not [account for account in await site.store.admins.list() if account.subject]


@pytest.mark.parametrize(
    ("user", "claims", "words"),
    [
        ("nemo", {}, "None of your groups"),
        ("olga", {"groups": None}, "None of your groups"),
        ("olga", {"email": "olga@evil.example"}, "allowed domain"),
        ("olga", {"email": "olga@sub.example.com"}, "allowed domain"),
        ("olga", {"email_verified": False}, "allowed domain"),
        ("olga", {"email_verified": None}, "allowed domain"),
        ("olga", {"email": None}, "no name"),
        ("olga", {"email": "<b>@example.com"}, "no name"),
        ("olga", {"email": f"{'x' * 60}@example.com"}, "no name"),
    ],
)
async def test_people_without_access_are_refused(
    site: DashboardSite, provider: Process, user: str, claims: dict[str, Any], words: str
) -> None:
    """Without a mapped group, a verified address of a domain, or a usable name; it is in the audit trail."""
    provider.post("/control", faults={"claims": claims})
    page = await log_in(site.stranger, user)
    assert (page.status, words in page.text) == (403, True)
    assert (await site.store.audit.query(limit=1))[0].action == "login_refused"
    assert (await site.stranger.get("/account")).location.startswith("/login")


async def test_an_identity_is_not_a_name(site: DashboardSite, provider: Process) -> None:
    """An address like the name of an admin is another account, and one that was another user's is refused."""
    assert (await log_in(site.stranger, "Eve")).location == "/"
    assert "oidc:ada@example.com operator" in (await site.stranger.get("/account")).text
    provider.post("/control", faults={"claims": {"email": "ada@example.com"}})
    other = site.visitor()
    assert "belongs to another user" in (await log_in(other, "olga")).text
    account = await site.store.admins.get("ada")
    assert account
    assert account.role is Role.ADMIN


async def test_role_and_teams_follow_the_groups_at_each_login(site: DashboardSite, provider: Process) -> None:
    """A user who left a group loses its permissions; the page of users does not change them."""
    assert (await log_in(site.stranger, "olga")).location == "/"
    assert "by the OpenID provider" in (await site.ada.get("/users")).text
    for path in ("role", "reset", "teams"):
        page = await site.ada.post(f"/users/oidc:olga@example.com/{path}", {"role": "admin"}, page="/users")
        assert (page.status, "kept at the OpenID provider" in page.text) == (400, True)
    provider.post("/control", users={"olga": {"groups": ["platform"]}})
    assert (await log_in(site.visitor(), "olga")).location == "/"
    account = await site.store.admins.get("oidc:olga@example.com")
    assert account
    assert (account.role, account.teams) == (Role.ADMIN, ())
    assert (await site.ada.post("/users/oidc:olga@example.com/remove", page="/users")).status == 303
    assert (await site.stranger.get("/account")).location.startswith("/login")


@pytest.mark.parametrize("password", ["", "nobody has this password"])
async def test_such_a_user_has_no_password(site: DashboardSite, password: str) -> None:
    """No password logs in, and none can be set."""
    await log_in(site.stranger, "olga")
    assert (await site.visitor().login("oidc:olga@example.com", password)).status == 401
    new = {"current": password, "password": "entirely different words", "again": "entirely different words"}
    assert (await site.stranger.post("/account/password", new, page="/account")).status == 400


async def test_without_the_provider_accounts_still_work(site: DashboardSite, provider: Process) -> None:
    """A plain error page; the login with a password is as before."""
    callback = await at_provider(site.stranger, "olga")
    provider.stop()
    for page in (await site.stranger.get(callback), await site.visitor().get("/login/oidc")):
        assert (page.status in {303, 503}, "Traceback" in page.text) == (True, False)
    assert "Accounts with a password still work" in (await site.stranger.get(callback)).text
    assert (await site.stranger.login("ada")).location == "/"


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": 5},
    ],
    ids=str,
)
async def test_a_provider_that_describes_another_one_is_refused(
    site: DashboardSite, provider: Process, metadata: dict[str, Any]
) -> None:
    """A foreign issuer, and endpoints that are missing or in plain HTTP."""
    provider.post("/control", faults={"metadata": metadata})
    assert (await site.stranger.get("/login/oidc")).status == 503


async def test_keys_are_read_again_when_they_were_rotated(site: DashboardSite, provider: Process) -> None:
    """Between two logins, and within one."""
    assert (await log_in(site.stranger, "olga")).location == "/"
    provider.post("/rotate")
    other = site.visitor()
    callback = await at_provider(other, "olga")
    provider.post("/rotate")
    assert (await other.get(callback)).location == "/"


async def test_a_logout_ends_the_session_of_the_provider_too(site: DashboardSite, provider: Process) -> None:
    """By a page that leads there; who logged in with a password goes to the login, and so does all without a page."""
    await log_in(site.stranger, "olga")
    page = await site.stranger.post("/logout", page="/account")
    target = f"{provider.issuer}/logout?"
    assert page.headers["Refresh"].startswith(f"0; url={target}")
    (link,) = [link for link in page.reader.links if link.startswith(target)]
    assert parse_qs(urlsplit(link).query) == {
        "client_id": [CLIENT],
        "post_logout_redirect_uri": [f"{site.base}/login"],
    }
    assert (await site.stranger.get("/account")).location.startswith("/login")
    assert (await site.vic.post("/logout", page="/account")).location == "/login"


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "/keys\r\nX: y", "x"])
async def test_nobody_is_sent_to_another_site(site: DashboardSite, target: str) -> None:
    """The page to go to after the login is one of ours."""
    callback = await at_provider(site.stranger, "olga", f"/login/oidc?{urlencode({'next': target})}")
    assert (await site.stranger.get(callback)).location == "/"


async def test_who_is_logged_in_stays_so(site: DashboardSite) -> None:
    """A link of another site to the login changes nothing."""
    before = site.ada.cookie()
    assert (await site.ada.get("/login/oidc")).location == "/"
    assert (await site.ada.get("/login/oidc/callback?code=x&state=y")).location == "/"
    assert site.ada.cookie() == before


async def test_tries_are_limited_per_address(site: DashboardSite) -> None:
    """As those with a password are."""
    pages = await asyncio.gather(*(site.stranger.get("/login/oidc/callback?state=x") for _ in range(30)))
    assert {page.status for page in pages} == {403, 429}


async def test_logs_hold_neither_code_nor_token_nor_secret(
    site: DashboardSite, provider: Process, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a success and of failures; the reason is there."""
    callback = await at_provider(site.stranger, "olga")
    code = parse_qs(urlsplit(callback).query)["code"][0]
    await site.stranger.get(callback)
    provider.post("/control", faults={"claims": {"nonce": "another"}})
    await log_in(site.visitor(), "olga")
    output = "".join(capfd.readouterr())
    assert "wrong_nonce" in output
    assert not [secret for secret in (code, SECRET, "eyJ", "id-of-olga") if secret in output]


def test_a_state_belongs_to_a_cookie() -> None:
    """And names the page to go to; another cookie, a changed and an empty one are refused."""
    state = new_state("token", "/keys")
    assert is_valid_state("token", state)
    assert target_of(state) == "/keys"
    assert not is_valid_state("other", state)
    content, _, seal = state.rpartition(".")
    salt, end, path = content.split(".")
    for wrong in ("", "...", f"{salt}.{int(end) + 1}.{path}.{seal}", f"{content}.{'0' * 64}", f"é{state}"):
        assert not is_valid_state("token", wrong)


@pytest.mark.parametrize(
    ("claims", "name", "groups"),
    [
        ({"groups": ["a", 5, "b"]}, "groups", ["a", "b"]),
        ({"groups": "a"}, "groups", ["a"]),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ["a"]),
        ({"https://x.example/groups": ["a"]}, "https://x.example/groups", ["a"]),
        ({"realm_access": "a"}, "realm_access.roles", []),
        ({}, "groups", []),
    ],
)
def test_groups_are_read_from_a_claim_or_a_path(claims: dict[str, Any], name: str, groups: list[str]) -> None:
    """Whatever is no text is left out."""
    assert groups_in(claims, name) == groups
