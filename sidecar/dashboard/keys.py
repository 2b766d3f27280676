"""Keys: create (shown once), change terms, rotate with a grace period, revoke, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import get_args

from aiohttp import web

from sidecar import policy
from sidecar.auth.api_keys import (
    ENVIRONMENTS,
    ApiKey,
    KeyRing,
    check_identity,
    check_rule_changes,
    describe_changes,
    describe_new,
)
from sidecar.dashboard.forms import Checks, Form, refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.pages import duration
from sidecar.dashboard.paging import Paging, read_offset
from sidecar.dashboard.periods import RANGES, read_period
from sidecar.dashboard.refresh import refreshed
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.errors import RequestError
from sidecar.policy import Policy
from sidecar.policy.inheritance import is_refused, terms_of
from sidecar.policy.switches import unknown_rules
from sidecar.storage import MAX_RULE_CHANGES, Cause, KeyChanges, KeyOverrides, Mode, valid_team
from sidecar.util.units import format_rate, parse_rule_changes

LONGEST_LIFE = timedelta(days=3650)
CAUSES: Mapping[Cause, str] = {
    "rate": "its rate or burst",
    "bytes": "its bytes a minute",
    "budget": "the budget of its profile",
    "busy": "no free place or memory for a scan",
}
"""Why a request over a limit was refused, in words."""


class KeysPage:
    """The page of API keys."""

    def __init__(self, keyring: KeyRing, general: Callable[[], Policy], status: Callable[[], ServiceStatus]) -> None:
        self._keyring, self._policy, self._status = keyring, general, status

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/keys", self.show),
            Route("POST", "/keys", self.create),
            Route("GET", "/keys/{id}", self.show_one),
            Route("POST", "/keys/{id}", self.change),
            Route("POST", "/keys/{id}/rotate", self.rotate),
            Route("POST", "/keys/{id}/revoke", self.revoke),
            Route("POST", "/keys/{id}/delete", self.delete),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The keys with their state, the newest first, page by page, or those of a name; never their values."""
        return refreshed(await self._page(visit), visit.query)

    async def _page(
        self, visit: Visit, error: RequestError | None = None, new: tuple[ApiKey, str] | None = None
    ) -> web.Response:
        now, words, team = datetime.now(UTC), visit.query.text("text").lower(), visit.query.text("team")
        matching = [key for key in reversed(await visit.keys()) if words in f"{key.name} {key.id}".lower()]
        period = read_period(visit.query, now)
        paging = Paging(read_offset(visit.query), len(matching), {"text": words, "team": team, "range": period.name})
        page_keys = matching[paging.offset : paging.end]
        values = {
            "keys": [(key, str(key.state(now))) for key in page_keys],
            "refusals": await visit.store.refusals.of_keys([key.id for key in page_keys], period.since, period.until),
            "period": period,
            "ranges": RANGES,
            "paging": paging,
            "text": words,
            "teams": await visit.team_choices(),
            "team": team,
            "new": new,
            "error": error,
            "form": visit.form,
            "environments": ENVIRONMENTS,
            "modes": get_args(Mode),
            "profiles": self._profiles(),
            "done": visit.query.text("done"),
            "terms": own_words,
        }
        return visit.page("keys.html", error.status if error else 200, **values)

    async def create(self, visit: Visit) -> web.Response:
        """Create a key; this response is the only one that shows its value."""
        form = visit.form
        try:
            checks, name = Checks(), form.get("name", "").strip()
            environment = checks.read(lambda: form.choice("environment", ENVIRONMENTS)) or ENVIRONMENTS[0]
            checks.read(lambda: check_identity(name, environment))
            expires = checks.read(lambda: _life(form.duration("expires"), "expires"))
            terms = self._own_terms(visit, checks, await self._rules_policy(visit))
            checks.done()
            new = await self._keyring.create(name, environment=environment, expires=expires, **terms)
        except RequestError as error:
            return await self._page(visit, error)
        visit.form.clear()
        await visit.note("key_created", new[0].id, describe_new(new[0]))
        return await self._page(visit, new=new)

    async def show_one(self, visit: Visit) -> web.Response:
        """One key with its terms, and the form to change them."""
        return await self._key_page(visit, None)

    async def _key_page(self, visit: Visit, error: RequestError | None) -> web.Response:
        key, period = await _key(visit), read_period(visit.query, datetime.now(UTC))
        refusals = await visit.store.refusals.of_keys([key.id], period.since, period.until)
        values = {
            "period": period,
            "ranges": RANGES,
            "refusals": sorted(refusals.get(key.id, {}).items(), key=lambda item: -item[1]),
            "causes": CAUSES,
            "teams": await visit.team_choices(),
            "key": key,
            "state": str(key.state(datetime.now(UTC))),
            "form": visit.form if error else Form(_filled(key)),
            "error": error,
            "modes": get_args(Mode),
            "profiles": self._profiles(key),
            "terms": terms_of(self._status().settings, key),
            "is_refused": is_refused(self._status().settings, key),
            "done": visit.query.text("done"),
        }
        return visit.page("key.html", error.status if error else 200, **values)

    async def change(self, visit: Visit) -> web.Response:
        """Replace all terms by those in the form."""
        key = await _key(visit)
        try:
            checks = Checks()
            ends = checks.read(lambda: _end(visit.form, key))
            terms: KeyChanges = {
                **self._own_terms(visit, checks, await self._rules_policy(visit), key),
                "expires_at": ends,
            }
            checks.done()
            before, after = await self._keyring.change(key.id, terms)
        except RequestError as error:
            return await self._key_page(visit, error)
        if changes := describe_changes(before, after):
            await visit.note("key_changed", after.id, changes)
        return to(f"/keys/{after.id}", "changed")

    async def rotate(self, visit: Visit) -> web.Response:
        """Create a successor, shown once; the old key stays valid for the grace period."""
        key_id = (await _key(visit)).id
        try:
            grace = _life(visit.form.duration("grace"), "grace") or timedelta(hours=24)
            new = await self._keyring.rotate(key_id, grace)
        except RequestError as error:
            return await self._page(visit, refused(error.status, error.detail))
        await visit.note("key_rotated", key_id, f"successor {new[0].id}, grace {duration(grace.total_seconds())}")
        return await self._page(visit, new=new)

    async def revoke(self, visit: Visit) -> web.Response:
        """Revoke a key; its record stays."""
        key = await _key(visit)
        await self._keyring.revoke(key.id)
        await visit.note("key_revoked", key.id)
        return to("/keys", "revoked")

    async def delete(self, visit: Visit) -> web.Response:
        """Revoke a key and delete its record."""
        key = await _key(visit)
        await self._keyring.delete(key.id)
        await visit.note("key_deleted", key.id, f"{key.name} ({key.environment})")
        return to("/keys", "deleted")

    async def _rules_policy(self, visit: Visit) -> Policy:
        """The policy that the key will have: that of the profile in the form, if it has policies of its own."""
        profile = self._status().settings.profiles.get(visit.form.text("profile"))
        if profile is None or profile.policies is None:
            return self._policy()
        return await asyncio.to_thread(policy.load, profile.policies)

    def _own_terms(self, visit: Visit, checks: Checks, rules_policy: Policy, key: ApiKey | None = None) -> KeyOverrides:
        """The limits, policy and team in a form of `key`, or of a new one; what is wrong is noted in `checks`."""
        form = visit.form
        return {
            "team": checks.read(lambda: _team(visit)),
            "rate": checks.read(lambda: form.rate("rate")),
            "burst": checks.read(lambda: form.whole("burst", 1, 1_000_000)),
            "threshold": checks.read(lambda: form.number("threshold", 0, 1)),
            "mode": checks.read(lambda: _mode(form.choice("mode", get_args(Mode)))),
            "rules": checks.read(lambda: _rules(form.text("rules", MAX_RULE_CHANGES), rules_policy)),
            "profile": checks.read(lambda: form.choice("profile", self._profiles(key))),
        }

    def _profiles(self, key: ApiKey | None = None) -> tuple[str, ...]:
        """The profiles to choose from: those configured, and the one that the key has."""
        own = (key.profile,) if key and key.profile else ()
        return tuple(dict.fromkeys((*self._status().settings.profiles, *own)))


def _rules(text: str, rules_policy: Policy) -> str | None:
    """The changes of rules, if all these rules exist; how they are written is checked by the key ring."""
    with suppress(ValueError):
        if problems := unknown_rules(rules_policy, parse_rule_changes(text)):
            raise refused(400, f"{'; '.join(problems)}.", param="rules")
    check_rule_changes(text or None)
    return text or None


async def _key(visit: Visit) -> ApiKey:
    """The key of the address, if the user may see it. Raises `RequestError`."""
    key = await visit.key(visit.request.match_info["id"])
    if key is None:
        raise refused(404, "There is no such key.")
    return key


def _team(visit: Visit) -> str | None:
    """The team in a form; of a limited user one of their own, by default the only one."""
    team = visit.form.text("team").lower()
    if visit.teams is None:
        if team and not valid_team(team):
            raise refused(400, "A team has 1 to 64 lower-case letters, digits or any of . _ -", param="team")
        return team or None
    team = team or (visit.teams[0] if len(visit.teams) == 1 else "")
    if team not in visit.teams:
        raise refused(400, f"Choose one of your teams: {', '.join(visit.teams) or 'you have none'}.", param="team")
    return team


def _filled(key: ApiKey) -> dict[str, str]:
    """The terms of a key as values of its form."""
    return {
        "expires": _shown(key.expires_at),
        "rate": format_rate(key.rate) if key.rate else "",
        "burst": str(key.burst or ""),
        "threshold": "" if key.threshold is None else f"{key.threshold:g}",
        "mode": key.mode or "",
        "rules": key.rules or "",
        "team": key.team or "",
        "profile": key.profile or "",
    }


def _shown(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M") if moment else ""


def _end(form: Form, key: ApiKey) -> datetime | None:
    """The key's new expiry: unchanged, never, a point in time, or a duration from now."""
    text = form.text("expires")
    if text == _shown(key.expires_at):
        return key.expires_at
    now = datetime.now(UTC)
    try:
        life = form.duration("expires")
    except RequestError:
        moment = form.moment("expires")
        life = (moment - now).total_seconds() if moment else None
    ends = _life(life, "expires")
    return now + ends if ends else None


def _mode(chosen: str | None) -> Mode | None:
    return next((mode for mode in get_args(Mode) if mode == chosen), None)


def _life(seconds: float | None, param: str) -> timedelta | None:
    if seconds is None:
        return None
    if not 0 < seconds <= LONGEST_LIFE.total_seconds():
        raise refused(400, "From 1s to 3650d from now.", param=param)
    return timedelta(seconds=seconds)


def own_words(key: ApiKey) -> list[str]:
    """The key's own terms as text; empty where the general ones apply."""
    terms = [format_rate(key.rate)] if key.rate else []
    terms += [f"{key.burst} at once"] if key.burst else []
    terms += [f"profile {key.profile}"] if key.profile else []
    terms += [f"blocks from {key.threshold:g}"] if key.threshold is not None else []
    return terms + ([f"rules: {key.rules}"] if key.rules else [])
