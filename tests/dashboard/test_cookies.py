"""The cookie of the dashboard."""

from __future__ import annotations

from pathlib import Path

import dashboard
from dashboard import DashboardSite

from sidecar.dashboard.cookies import csrf, digest, new_token
from sidecar.storage import Store


async def test_the_cookie_is_for_the_server_alone(site: DashboardSite) -> None:
    """No script reads it, no foreign form sends it, and it ends with the browser."""
    cookie = (await site.stranger.get("/login")).headers["Set-Cookie"]
    name, *flags = cookie.split("; ")
    assert name.startswith("sidecar_session=")
    assert sorted(flags) == ["HttpOnly", "Path=/", "SameSite=Lax"]


async def test_on_https_the_cookie_is_secure_and_bound_to_the_host(tmp_path: Path) -> None:
    """The name's prefix makes the browser insist on it."""
    chosen = dashboard.settings(tmp_path, admin={"port": 0, "url": "https://side.example"})
    store = await Store.open(chosen.store.url)
    async with dashboard.serve(dashboard.dependencies(chosen, store)) as base:
        visitor = dashboard.Visitor(base)
        cookie = (await visitor.get("/login", Host="side.example")).headers["Set-Cookie"]
        await visitor.session.close()
    await store.close()
    assert cookie.startswith("__Host-sidecar_session=")
    assert sorted(cookie.split("; ")[1:]) == ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]


async def test_a_cookie_that_is_no_token_is_replaced(site: DashboardSite) -> None:
    """What a browser sends is used in its exact form or not at all."""
    for odd in ("", "x", "y" * 44, "z" * 4000):
        page = await site.visitor().get("/login", Cookie=f"sidecar_session={odd}")
        assert len(page.headers["Set-Cookie"].split(";")[0].partition("=")[2]) == 43


def test_tokens_digests_and_form_tokens_are_all_different() -> None:
    """One does not give away the other."""
    first, second = new_token(), new_token()
    assert len({first, second, digest(first).hex(), digest(second).hex(), csrf(first), csrf(second)}) == 6
