"""One-time links with which people set their password: the first admin, new users, forgotten passwords."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sidecar.config import Settings
from sidecar.dashboard.cookies import digest, new_token
from sidecar.storage import Invitation, Role, Store

LIFE = timedelta(hours=24)
PATH = "/invitation/"


async def invite(store: Store, name: str | None, role: Role, by: str, teams: tuple[str, ...] | None = None) -> str:
    """The path of a new link; it cannot be shown again. Earlier links for the same name become invalid."""
    token, now = new_token(), datetime.now(UTC)
    await store.admins.invite(Invitation(digest(token), name, role, by, now + LIFE, teams), now)
    return PATH + token


async def bootstrap(store: Store, base: str) -> str | None:
    """The link for the first admin; None once an account exists."""
    if await store.admins.any():
        return None
    return base + await invite(store, None, Role.ADMIN, "first start")


def base_url(settings: Settings, port: int | None = None) -> str:
    """The dashboard's public base URL: `admin.url`, else the address that it listens on."""
    if settings.admin.url:
        return settings.admin.url.rstrip("/")
    host = settings.admin.host
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - listening everywhere is the operator's choice
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port or settings.admin.port}"
