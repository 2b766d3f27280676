"""Keys: create (shown once), rotate with a grace period, revoke, delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from aiohttp import web

from sidecar.apikeys import ENVIRONMENTS, ApiKey, KeyRing
from sidecar.errors import RequestError
from sidecar.store import Mode, Role
from sidecar.units import Rate
from sidecar.web.admin.forms import refused
from sidecar.web.admin.guard import Route, Visit, to
from sidecar.web.admin.pages import duration

LONGEST_LIFE = timedelta(days=3650)


class KeysPage:
    """The page of API keys."""

    def __init__(self, keyring: KeyRing) -> None:
        self._keyring = keyring

    def routes(self) -> list[Route]:
        """Its pages."""
        return [
            Route("GET", "/keys", self.show),
            Route("POST", "/keys", self.create, Role.ADMIN),
            Route("POST", "/keys/{id}/rotate", self.rotate, Role.ADMIN),
            Route("POST", "/keys/{id}/revoke", self.revoke, Role.ADMIN),
            Route("POST", "/keys/{id}/delete", self.delete, Role.ADMIN),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All keys with their state, the newest first; never their values."""
        return await self._page(visit)

    async def _page(
        self, visit: Visit, error: RequestError | None = None, new: tuple[ApiKey, str] | None = None
    ) -> web.Response:
        now = datetime.now(UTC)
        keys = [(key, str(key.state(now))) for key in reversed(await self._keyring.list())]
        values = {
            "keys": keys,
            "new": new,
            "error": error,
            "form": visit.form,
            "environments": ENVIRONMENTS,
            "modes": get_args(Mode),
            "done": visit.query.text("done"),
            "rate": rate_words,
        }
        return visit.page("keys.html", error.status if error else 200, **values)

    async def create(self, visit: Visit) -> web.Response:
        """A new key; this answer is the only one that shows its value."""
        form = visit.form
        try:
            rate = form.rate("rate")
            new = await self._keyring.create(
                form.get("name", "").strip(),
                environment=form.choice("environment", ENVIRONMENTS) or ENVIRONMENTS[0],
                expires=_life(form.duration("expires"), "expires"),
                rate=rate and Rate(*rate),
                burst=form.whole("burst", 1, 1_000_000),
                threshold=form.number("threshold", 0, 1),
                mode=_mode(form.choice("mode", get_args(Mode))),
            )
        except RequestError as error:
            return await self._page(visit, error)
        visit.form.clear()
        await visit.note("key_created", new[0].id, f"{new[0].name} ({new[0].environment})")
        return await self._page(visit, new=new)

    async def rotate(self, visit: Visit) -> web.Response:
        """A successor, shown once; the old key stays valid for the grace period."""
        key_id = _id(visit)
        try:
            grace = _life(visit.form.duration("grace"), "grace") or timedelta(hours=24)
            new = await self._keyring.rotate(key_id, grace)
        except RequestError as error:
            return await self._page(visit, refused(error.status, error.detail))
        await visit.note("key_rotated", key_id, f"successor {new[0].id}, grace {duration(grace.total_seconds())}")
        return await self._page(visit, new=new)

    async def revoke(self, visit: Visit) -> web.Response:
        """Refused from now on; the record stays."""
        await self._keyring.revoke(_id(visit))
        await visit.note("key_revoked", _id(visit))
        return to("/keys", "revoked")

    async def delete(self, visit: Visit) -> web.Response:
        """Refused from now on, and the record is gone."""
        await self._keyring.delete(_id(visit))
        await visit.note("key_deleted", _id(visit))
        return to("/keys", "deleted")


def _id(visit: Visit) -> str:
    return visit.request.match_info["id"]


def _mode(chosen: str | None) -> Mode | None:
    return next((mode for mode in get_args(Mode) if mode == chosen), None)


def _life(seconds: float | None, param: str) -> timedelta | None:
    if seconds is None:
        return None
    if not 0 < seconds <= LONGEST_LIFE.total_seconds():
        raise refused(400, "A duration from 1s to 3650d.", param=param)
    return timedelta(seconds=seconds)


def rate_words(key: ApiKey) -> str:
    """The key's own limits, or nothing where the general ones hold."""
    rate = f"{key.rate.requests} per {duration(key.rate.period)}" if key.rate else ""
    burst = f"{key.burst} at once" if key.burst else ""
    return ", ".join(part for part in (rate, burst) if part)
