"""What an attacker sends to the dashboard: every page and every form, on both databases, with what breaks others."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, urlencode

import dashboard
import pytest
from aiohttp import web
from dashboard import DashboardSite, Page, Visitor

from sidecar.dashboard import Dashboard
from sidecar.dashboard.invitations import invite
from sidecar.dashboard.login import FAILURE_TAKES
from sidecar.storage import Role, Store

SQL = (
    "' OR '1'='1'; DROP TABLE api_keys; --",
    "1) UNION SELECT password FROM admins --",
    "999999999999999999999999999999",
    "\x00\u202e\u200b\ud7ff\U0010ffff",
)
"""What a database could stumble over; the rest never gets that far."""
HOSTILE = (
    *SQL,
    '"><script>alert(1)</script><img src=x onerror=alert(1)>{{7919*7919}}${7919*7919}',
    "=cmd()|'/c calc'!A0",
    "a\r\nSet-Cookie: owned=1\r\n\r\n<html>",
    "../../../../etc/passwd",
    "9999-12-31T23:59:59+00:01",
    "x" * 20_000,
)
QUERY = "since until key model label action layer before form range text status actor done next live revision name"
FIELDS = (
    "name environment expires rate burst threshold mode grace reason lasts scope role current password again prompt "
    "system_prompt next username"
)
HEADERS = ("X-API-Key", "Authorization", "X-Forwarded-For", "User-Agent", "Referer", "X-Request-Id", "Accept-Language")
OTHERS = ("/logout", "/static/")
FIELD = re.compile(r"(?s)<input[^>]*>|<textarea.*?</textarea>")
"""What somebody typed comes back to them in its field as it was; everywhere else nothing hides."""


@pytest.fixture
async def furnished(store: Store, tmp_path: Path) -> AsyncIterator[DashboardSite]:
    """A dashboard on each kind of store, with a key and a decision in it."""
    async with dashboard.open_site(dashboard.settings(tmp_path), store) as opened:
        await opened.dependencies.keyring.create("shop")
        await store.decisions.add([dashboard.log_row()])
        yield opened


def routes(site: DashboardSite, method: str) -> Iterator[str]:
    """The paths of all pages of the dashboard, however many there will be."""
    for route in Dashboard(site.dependencies).routes():
        if isinstance(route, web.RouteDef) and route.method == method and not route.path.startswith(OTHERS):
            yield route.path


def filled(path: str, value: str) -> str:
    """The path with a value in each of its places."""
    for place in ("id", "token", "name"):
        path = path.replace(f"{{{place}}}", quote(value[:200], safe=""))
    return path


def harmless(page: Page, sent: str) -> None:
    """No fault of the server, no markup that was sent, no header that was sent, no text that hides."""
    assert page.status < 500, (page.status, sent[:50], page.text[:200])
    assert "owned" not in str(page.headers.get("Set-Cookie", ""))
    assert page.reader.tags.count("script") <= 1
    assert page.reader.tags.count("img") <= 1
    assert not {"\u202e", "\u200b", "\x00"} & set(FIELD.sub("", page.body))
    assert "62710561" not in page.text or "{{7919*7919}}" not in sent
    assert not page.location or (page.location.startswith("/") and not page.location.startswith(("//", "/\\")))


async def intact(site: DashboardSite) -> None:
    """All tables are there, and hold what they held."""
    assert [key.name for key in await site.dependencies.keyring.list()][:1] == ["shop"]
    assert {user.name for user in await site.store.admins.list()} >= {"ada", "vic"}
    assert (await site.store.admins.get("ada")).role is Role.ADMIN  # type: ignore[union-attr]
    assert await site.store.decisions.count() == 1
    assert (await site.ada.get("/")).status == 200


def hostile(site: DashboardSite) -> tuple[str, ...]:
    """What is sent to a dashboard on that database."""
    return HOSTILE if "PostgreSQL" not in site.store.name else SQL


async def test_no_address_breaks_a_page(furnished: DashboardSite) -> None:
    """Every page, with hostile text in each place of its path and each parameter of its query."""
    for value in hostile(furnished):
        everything = urlencode(dict.fromkeys(QUERY.split(), value[:400]))
        free = urlencode(dict.fromkeys(("key", "model", "revision", "actor", "text", "next"), value[:400]))
        for path in routes(furnished, "GET"):
            harmless(await furnished.ada.get(f"{filled(path, value)}?{free}"), value)
        harmless(await furnished.ada.get(f"/decisions?{everything}"), value)
    await intact(furnished)


async def test_no_form_breaks_a_page(furnished: DashboardSite) -> None:
    """Every form, with hostile text in each field."""
    token = (await furnished.ada.get("/account")).csrf
    for value in hostile(furnished):
        fields = {**dict.fromkeys(FIELDS.split(), value[:5000]), "csrf": token}
        for path in routes(furnished, "POST"):
            if path in {"/login", "/invitation/{token}"}:  # a login would end the session
                continue
            harmless(await furnished.ada.post(filled(path, value), fields), value)
    await intact(furnished)


async def test_no_header_breaks_a_page(furnished: DashboardSite) -> None:
    """Whatever a browser, a proxy or a curious client puts into the headers; on a page, a form and a login."""
    for value in hostile(furnished):
        plain = "".join(char for char in value if char.isprintable() and char.isascii())[:4000]
        headers = dict.fromkeys(HEADERS, plain)
        harmless(await furnished.ada.get("/decisions", **headers), value)
        harmless(await furnished.stranger.get("/login", **headers, Cookie=f"sidecar_session={plain}"), value)
        harmless(await furnished.ada.post("/keys", {"name": ""}, **headers), value)
    await intact(furnished)


async def test_an_export_holds_no_formula(site: DashboardSite) -> None:
    """Not even where a client chose the name of its model; every cell is quoted."""
    entries = [dashboard.log_row(n, model=value, route=value) for n, value in enumerate(HOSTILE, 10)]
    await site.store.decisions.add(entries)
    lines = (await site.ada.get("/decisions/export?form=csv")).body.splitlines()
    assert not [line for line in lines if ',"=' in line or ',"+' in line or ',"@' in line or ',"-' in line]
    assert all(line.startswith('"') or "<html>" in line or "Set-Cookie" in line or not line for line in lines)


async def test_a_wrong_name_takes_as_long_as_a_wrong_password(site: DashboardSite) -> None:
    """Failures take the same fixed time: what is done for a name that exists does not show."""
    for name in ("ada", "nobody", "not a name"):
        begun = time.monotonic()
        assert (await site.stranger.login(name, "wrong password!")).status == 401
        assert time.monotonic() - begun >= FAILURE_TAKES


async def test_a_stranger_changes_nothing(site: DashboardSite) -> None:
    """Every form without a session, and with a token of the stranger's own: to the login, or refused."""
    for path in routes(site, "POST"):
        if path in {"/login", "/invitation/{token}"}:
            continue
        token = (await site.stranger.get("/login")).csrf
        page = await site.stranger.post(filled(path, "shop"), {"csrf": token, "name": "x", "role": "admin"})
        assert (page.status, page.location[:6]) == (303, "/login")
    for path in routes(site, "GET"):
        page = await site.stranger.get(filled(path, "shop"))
        open_to_all = path.startswith(("/login", "/invitation/", "/reference"))
        assert open_to_all or (page.status, page.location[:6]) == (303, "/login")


async def test_a_viewer_changes_nothing_but_their_own_password_and_views(site: DashboardSite) -> None:
    """Every form that is not for everybody is refused, whatever the menu shows."""
    allowed = {"/playground", "/account/password", "/login", "/invitation/{token}", "/decisions/views"}
    for path in routes(site, "POST"):
        if path not in allowed:
            expected = 404 if path.startswith("/decisions/views/") else 403  # their own views; there is none
            assert (await site.vic.post(filled(path, "ada"), {"name": "x"}, page="/account")).status == expected


async def test_a_form_counts_once_from_its_own_session(site: DashboardSite) -> None:
    """A token of one session is worth nothing in another of the same account, nor after the logout."""
    link = await invite(site.store, "eve", Role.ADMIN, "ada")
    first, second = site.visitor(), site.visitor()
    await first.join(link)
    await second.login("eve")
    token = (await first.get("/account")).csrf
    assert (await second.post("/users", {"name": "mallory", "csrf": token})).status == 403
    cookie = first.cookie()
    await first.post("/logout", page="/account")
    impostor = Visitor(site.base)
    site.visitors.append(impostor)
    impostor.session.cookie_jar.update_cookies({"sidecar_session": cookie})
    assert (await impostor.post("/users", {"name": "mallory", "csrf": token})).location.startswith("/login")


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""])
async def test_only_a_form_is_a_form(site: DashboardSite, kind: str) -> None:
    """What a foreign page can send without asking the browser for leave is not taken for one of our forms."""
    token = (await site.ada.get("/account")).csrf
    body = BytesIO(urlencode({"csrf": token, "name": "mallory"}).encode())
    headers = {"Content-Type": kind} if kind else {}
    async with site.ada.session.post(
        f"{site.base}/users", data=body, headers=headers, skip_auto_headers=["Content-Type"]
    ) as answer:
        assert answer.status == 415
