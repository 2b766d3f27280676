"""Twin of sidecar/dashboard/permissions.py: every route of the admin port has a least role, which holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiohttp import web
from dashboard import DashboardSite, Page, Visitor, log_row
from support import RULES_ONLY

from sidecar.config import Settings
from sidecar.dashboard.permissions import PERMISSIONS, least_role, table
from sidecar.runtime.app import Sidecar
from sidecar.storage import Role

PAGES = [permission for permission in PERMISSIONS if permission.role]
GUIDE = Path(__file__).parents[2] / "docs" / "access.md"


async def served(tmp_path: Path) -> set[tuple[str, str]]:
    """The routes of the admin port of a whole sidecar, with everything switched on that adds some."""
    (tmp_path / "secret").write_text("secret", "utf-8")
    oidc = {"issuer": "http://127.0.0.1:1", "client_id": "x", "client_secret_file": str(tmp_path / "secret")}
    store = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    admin = {"port": 0, "quit": True, "oidc": oidc}
    routes: set[tuple[str, str]] = set()

    class Recording(Sidecar):
        """Notes the application that the admin port serves."""

        async def _listen(self, data: web.Application, admin: web.Application) -> None:
            resources = [route for route in admin.router.routes() if route.resource]
            routes.update((route.method, route.resource.canonical) for route in resources if route.resource)
            await super()._listen(data, admin)

    values = {**RULES_ONLY, "listen": {"port": 0}, "admin": admin, "store": store}
    async with Recording(Settings.model_validate(values)):
        pass
    return {(method, path) for method, path in routes if method != "HEAD"}


async def test_every_route_has_a_least_role_and_every_entry_a_route(tmp_path: Path) -> None:
    """Of a whole sidecar's admin port: pages, probes, files, login with a provider, shutdown."""
    assert await served(tmp_path) == {(permission.method, permission.path) for permission in PERMISSIONS}
    assert len(PERMISSIONS) == len({(permission.method, permission.path) for permission in PERMISSIONS})


def test_a_route_without_a_role_is_not_served() -> None:
    """It is an error when the dashboard is built, not an open page."""
    with pytest.raises(KeyError):
        least_role("GET", "/nowhere")


def address(path: str) -> str:
    """A path with values in place of its parameters."""
    return re.sub(r"\{\w+\}", "absent", path)


async def answer(visitor: Visitor, method: str, path: str, csrf: str = "") -> Page:
    """Open or post to a path."""
    return await (visitor.get(address(path)) if method == "GET" else visitor.post(address(path), {"csrf": csrf}))


def visitor_of(site: DashboardSite, role: Role) -> Visitor:
    """A browser of somebody with that role."""
    return {Role.ADMIN: site.ada, Role.OPERATOR: site.oda, Role.VIEWER: site.vic}[role]


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_gets_its_routes_and_no_others(site: DashboardSite, role: Role) -> None:
    """403 as a page with the menu for those above the role, another answer for all others."""
    visitor = visitor_of(site, role)
    csrf = (await visitor.get("/account")).csrf
    for permission in sorted(PAGES, key=lambda permission: permission.path.startswith("/logout")):
        page = await answer(visitor, permission.method, permission.path, csrf)
        assert (page.status == 403) is not role.includes(permission.role or role), (permission, page.text)
        assert page.status < 500, permission
        if page.status == 403:
            assert f"This needs the role {permission.role}." in page.text
            assert "Log out" in page.text
        if permission.path == "/logout":
            return


async def test_nobody_gets_a_page_without_a_login(site: DashboardSite) -> None:
    """Each route with a role leads to the login instead."""
    csrf = (await site.stranger.get("/login")).csrf
    for permission in PAGES:
        page = await answer(site.stranger, permission.method, permission.path, csrf)
        assert page.location.startswith("/login"), permission


@pytest.mark.parametrize("role", list(Role))
async def test_nothing_that_is_shown_leads_to_a_refusal(site: DashboardSite, role: Role) -> None:
    """All links and forms of all pages that a role can open are of routes that it may use."""
    visitor = visitor_of(site, role)
    await site.store.decisions.add([log_row()])
    key, _ = await site.dependencies.keyring.create(f"of {role}")
    patterns = [
        (permission.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", permission.path)), permission.role)
        for permission in PERMISSIONS
    ]
    pages = {"/", "/account", f"/keys/{key.id}", f"/decisions/{log_row().id}", "/policies/INJ-1"}
    seen: set[str] = set()
    while pages - seen:
        path = (pages - seen).pop()
        seen.add(path)
        page = await visitor.get(path)
        assert page.status < 400, (path, page.text)
        forms = {form["action"] or path for form in page.reader.forms if "csrf" in form}
        links = {link.partition("?")[0].partition("#")[0] for link in page.reader.links}
        links = {link for link in links if link.startswith("/") and not link.startswith("/static")}
        pages |= {link for link in links if link != "/decisions/export" and link.count("/") == 1}
        for method, target in [*(("GET", link) for link in links), *(("POST", form) for form in forms)]:
            least = [minimum for verb, pattern, minimum in patterns if verb == method and pattern.fullmatch(target)]
            assert least, (path, method, target)
            assert any(minimum is None or role.includes(minimum) for minimum in least), (path, method, target)
    assert len(seen) > 8


def test_the_guide_shows_the_table() -> None:
    """As it is enforced; `python -m tools.reference` writes it."""
    assert table() in GUIDE.read_text("utf-8")
