"""Exceptions: a decision marked as a false positive is allowed next time: these rules, this text, until a day."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.pages import is_hidden
from sidecar.errors import RequestError
from sidecar.policy import Policy
from sidecar.scan.exceptions import Exemptions
from sidecar.storage import DecisionRow, Role, RuleException


class Exceptions:
    """The page of exceptions, and the button on a decision that makes them."""

    def __init__(self, exemptions: Exemptions, policy: Callable[[], Policy]) -> None:
        self._exemptions = exemptions
        self._policy = policy

    def routes(self) -> list[Route]:
        """Its pages."""
        return [
            Route("GET", "/exceptions", self.show),
            Route("POST", "/decisions/{id}/exception", self.add, Role.ADMIN),
            Route("POST", "/exceptions/{id}/revoke", self.revoke, Role.ADMIN),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All of them, the newest first, with who made them and why."""
        now = datetime.now(UTC)
        found = [(one, state(one, now)) for one in await visit.store.exceptions.query()]
        names = {key.id: key.name for key in await visit.store.keys.list()}
        known = {rule.id for rule in self._policy().rules}
        return visit.page("exceptions.html", found=found, names=names, known=known, done=visit.query.text("done"))

    async def add(self, visit: Visit) -> web.Response:
        """Except every rule that spoke for the block, on the text that it was met in."""
        entry = await visit.store.decisions.get(visit.request.match_info["id"])
        marks = exceptable(entry) if entry else []
        if entry is None or not marks:
            raise refused(400, "This decision has no findings that could be excepted.")
        terms = _terms(visit.form, entry, visit.name)
        made = [await self._exemptions.add(rule, digest, **terms) for rule, digest in marks]
        scope = f"key {entry.key_id}" if terms["key_id"] else "every key"
        for one in made:
            await visit.note("exception_added", one.id, f"{one.rule}, {scope}, decision {entry.id}: {one.reason}")
        return to("/exceptions", "added")

    async def revoke(self, visit: Visit) -> web.Response:
        """From now on the rule counts again."""
        exemption_id = visit.request.match_info["id"]
        if not await self._exemptions.revoke(exemption_id, visit.name):
            raise refused(404, "There is no such exception that could be revoked.")
        await visit.note("exception_revoked", exemption_id)
        return to("/exceptions", "revoked")


def exceptable(entry: DecisionRow) -> list[tuple[str, str]]:
    """Rules, each with the digest of the text that it would be excepted on, of a decision that blocks."""
    marked = ((finding["rule"], finding.get("digest")) for finding in entry.findings)
    return sorted({(rule, digest) for rule, digest in marked if digest})


def state(one: RuleException, now: datetime) -> str:
    """Whether it holds."""
    if one.revoked_at is not None:
        return "revoked"
    return "holds" if one.is_valid(now) else "expired"


def suggestion(entry: DecisionRow, rules: Sequence[str]) -> str:
    """The line for the policy that would end the false positive for good, as YAML."""
    text = entry.text if entry.text and entry.segments == 1 else "the prompt, which the log does not hold"
    return "\n".join(f"# {rule}\nno_match: [{_quoted(text[:500])}]" for rule in rules)


def _quoted(text: str) -> str:
    """A string of YAML in one line, in which nothing is hidden: what is copied is what was scanned."""
    return "".join(_escaped(char) if is_hidden(char) else char for char in json.dumps(text, ensure_ascii=False))


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def _terms(form: Form, entry: DecisionRow, author: str) -> dict[str, Any]:
    """What the form asks for. Raises `RequestError`."""
    seconds = form.duration("lasts") or 30 * 86400.0
    try:
        lasts = timedelta(seconds=seconds)
    except OverflowError:
        raise RequestError("An exception lasts for at most 366 days.", param="lasts") from None
    scope = form.choice("scope", ("key", "all")) or "key"
    return {
        "lasts": lasts,
        "reason": form.text("reason", 500),
        "author": author,
        "key_id": entry.key_id if scope == "key" else None,
        "decision": entry.id,
    }
