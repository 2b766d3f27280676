"""Twin of sidecar/dashboard/proxy_users.py: headers of a proxy, and of those who would like to be one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite

from sidecar.storage import Store

GROUPS = {"shop-dev": {"role": "operator", "teams": ["shop"]}, "platform": {"role": "admin"}}
HEADERS = {"X-Forwarded-User": "Olga", "X-Forwarded-Email": "olga@example.com", "X-Forwarded-Groups": "a, shop-dev"}


@asynccontextmanager
async def opened(folder: Path, *addresses: str, **proxy: str) -> AsyncIterator[DashboardSite]:
    """A dashboard that believes these addresses."""
    admin = {"port": 0, "groups": GROUPS, "proxy": {"addresses": addresses, **proxy}}
    store = await Store.open(f"sqlite:///{folder}/sidecar.db")
    async with dashboard.open_site(dashboard.settings(folder, admin=admin), store) as site:
        yield site
    await store.close()


async def test_a_user_of_the_proxy_has_the_permissions_of_the_groups(tmp_path: Path) -> None:
    """Without a login, for as long as the headers come; forms work, and the audit trail has the name."""
    async with opened(tmp_path, "10.0.0.0/8", "127.0.0.1/32") as site:
        page = await site.stranger.get("/account", **HEADERS)
        assert "proxy:olga operator" in page.text
        assert "teams: shop" in page.text
        assert "Log out" not in page.text
        assert "Current password" not in page.text
        form = (await site.stranger.get("/keys", **HEADERS)).csrf
        created = await site.stranger.post("/keys", {"name": "till", "csrf": form}, **HEADERS)
        assert "Copy it now" in created.text
        (event,) = await site.store.audit.query(action="key_created")
        assert event.actor == "proxy:olga"
        assert [key.team for key in await site.store.keys.list()] == ["shop"]
        assert (await site.stranger.get("/users", **HEADERS)).status == 403
        admin = {**HEADERS, "X-Forwarded-Groups": "platform"}
        assert (await site.stranger.get("/users", **admin)).status == 200
        assert (await site.stranger.get("/account")).location.startswith("/login")


@pytest.mark.parametrize("addresses", [(), ("10.0.0.0/8",), ("127.0.0.2/32", "::1/128")])
async def test_nobody_else_is_believed(tmp_path: Path, addresses: tuple[str, ...]) -> None:
    """By default none, and by the peer of the connection, not by what it says about itself."""
    async with opened(tmp_path, *addresses) as site:
        forged = {**HEADERS, "X-Forwarded-Groups": "platform", "X-Forwarded-For": "10.0.0.1"}
        assert (await site.stranger.get("/users", **forged)).location.startswith("/login")
        assert "vic viewer" in (await site.vic.get("/account", **forged)).text


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X-Forwarded-Groups": "b"}, "none of your groups"),
        ({"X-Forwarded-Groups": ""}, "none of your groups"),
        ({"X-Forwarded-User": "<b>"}, "The name that the proxy gives"),
        ({"X-Forwarded-User": "x" * 60}, "The name that the proxy gives"),
        ({"X-Forwarded-User": "oidc:root@example.com"}, "The name that the proxy gives"),
    ],
)
async def test_a_user_without_access_gets_a_page_that_says_so(
    tmp_path: Path, headers: dict[str, str], words: str
) -> None:
    """403, also for somebody with a session of their own: it is the proxy that says who is there."""
    async with opened(tmp_path, "127.0.0.1") as site:
        for visitor in (site.stranger, site.ada):
            page = await visitor.get("/account", **{**HEADERS, **headers})
            assert (page.status, words in page.text) == (403, True)


async def test_names_of_headers_are_configured_and_none_comes_twice(tmp_path: Path) -> None:
    """Authelia's; the address is the name where no other is given; accounts log in where no user is named."""
    names = {"user_header": "Remote-User", "email_header": "Remote-Email", "groups_header": "Remote-Groups"}
    async with opened(tmp_path, "127.0.0.1", **names) as site:
        theirs = {"Remote-Email": "olga@example.com", "Remote-Groups": "shop-dev,a"}
        assert "proxy:olga@example.com operator" in (await site.stranger.get("/account", **theirs)).text
        assert (await site.stranger.get("/account", **HEADERS)).location.startswith("/login")
        assert "ada admin" in (await site.ada.get("/account")).text
        twice = [("Remote-User", "olga"), ("Remote-User", "root"), ("Remote-Groups", "platform")]
        async with site.stranger.session.get(f"{site.base}/account", headers=twice) as answer:
            assert answer.status == 400


async def test_a_form_of_another_site_changes_nothing(tmp_path: Path) -> None:
    """The proxy's login is no protection against forged forms: the token of the cookie is needed all the same."""
    async with opened(tmp_path, "127.0.0.1") as site:
        await site.stranger.get("/keys", **HEADERS)
        for csrf in ("", "0" * 64, (await site.ada.get("/keys")).csrf):
            page = await site.stranger.post("/keys", {"name": "till", "csrf": csrf}, **HEADERS)
            assert page.status == 403
        assert await site.store.keys.list() == []


@pytest.mark.parametrize(("separator", "header", "status"), [(",", "a|platform", 403), ("|", "b,a|platform", 200)])
async def test_groups_are_parted_by_one_separator(tmp_path: Path, separator: str, header: str, status: int) -> None:
    """A name that holds another one is the name of one group, not of several."""
    async with opened(tmp_path, "127.0.0.1", separator=separator) as site:
        page = await site.stranger.get("/users", **{**HEADERS, "X-Forwarded-Groups": header})
        assert page.status == status
