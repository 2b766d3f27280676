"""Exceptions: marking a decision as a false positive stops its rules from matching this text until a date."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any

import re2
from aiohttp import web

from sidecar.dashboard.forms import Checks, Form, refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.pages import is_hidden
from sidecar.dashboard.paging import PAGE, Paging, read_offset
from sidecar.dashboard.refresh import refreshed
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.policy import Policy
from sidecar.policy.reductions import holds_for_every_text
from sidecar.scan.aggregation import all_rules_of
from sidecar.scan.exceptions import MAX_LIFETIME, RuleExceptions
from sidecar.storage import DecisionRow, RuleException
from sidecar.storage.decisions import WINDOW
from sidecar.storage.exceptions import mark_of
from sidecar.types import LayerName

MAX_SUGGESTED = 5_000
"""Characters of a text for which an entry of the settings is suggested."""
TO_WRITE = "(write a pattern of the whole text)"
"""The `text` of a suggested entry whose text the log does not hold."""


class Exceptions:
    """The page of exceptions."""

    def __init__(
        self, exceptions: RuleExceptions, policy: Callable[[], Policy], status: Callable[[], ServiceStatus]
    ) -> None:
        self._exceptions = exceptions
        self._policy, self._status = policy, status

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/exceptions", self.show),
            Route("POST", "/exceptions/{id}/revoke", self.revoke),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All exceptions, or those of one rule, newest first, page by page; then those of the settings."""
        now, rule = datetime.now(UTC), visit.query.text("rule")
        number = await visit.store.exceptions.count_marks(rule, teams=visit.teams)
        paging = Paging(read_offset(visit.query), number, {"rule": rule})
        marks = await visit.store.exceptions.marks(PAGE, offset=paging.offset, rule=rule, teams=visit.teams)
        rows = [[(exception, state(exception, now)) for exception in mark] for mark in marks]
        applied = await visit.store.exceptions.applied(chain.from_iterable(marks), WINDOW)
        names = {key.id: key.name for key in await visit.keys()}
        rule_ids = {rule.id for rule in self._policy().rules}
        done, visible = visit.query.text("done"), await _own_keys(visit)
        terms = self._status().settings.exceptions
        of_settings = [
            (number, entry, entry.until >= now.date(), holds_for_every_text(entry))
            for number, entry in enumerate(terms)
            if (not rule or rule in entry.rules) and (visit.teams is None or not entry.key or entry.key in visible)
        ]
        values = {
            "window": WINDOW,
            "applied": applied,
            "rows": rows,
            "names": names,
            "rule_ids": rule_ids,
            "rule": rule,
            "done": done,
        }
        answer = visit.page("exceptions.html", 200, of_settings=of_settings, paging=paging, **values)
        return refreshed(answer, visit.query)

    async def revoke(self, visit: Visit) -> web.Response:
        """Revoke an exception, or with `all` those of the same mark; their rules match again from now on."""
        exception = await visit.store.exceptions.get(visit.request.match_info["id"], teams=visit.teams)
        if exception is None:
            raise refused(404, "There is no such exception that could be revoked.")
        siblings = await visit.store.exceptions.of_decision(exception.decision or "") if visit.form.text("all") else []
        mark = [sibling for sibling in siblings if mark_of(sibling) == mark_of(exception)]
        revoked_ids = [
            single.id for single in mark or [exception] if await self._exceptions.revoke(single.id, visit.name)
        ]
        for exception_id in revoked_ids:
            await visit.note("exception_revoked", exception_id)
        if not revoked_ids:
            raise refused(404, "There is no such exception that could be revoked.")
        return to("/exceptions", "revoked")


async def mark_as_false_positive(visit: Visit, entry: DecisionRow, exceptions: RuleExceptions) -> None:
    """Create an exception for every rule that caused the block, and for the layers that were not asked any more.

    Raises `RequestError` for a wrong form, or if the decision has no such rule or is marked already.
    """
    marks = exceptable(entry)
    if not marks:
        raise refused(400, "This decision has no findings that could be excepted.")
    if any(exception.is_valid(datetime.now(UTC)) for exception in await visit.store.exceptions.of_decision(entry.id)):
        raise refused(409, "This decision is marked already.")
    terms = _terms(visit, entry)
    added = [await exceptions.add(rule, digest, **terms) for rule, digest in [*marks, *not_asked(entry, marks)]]
    scope = f"key {entry.key_id}" if terms["key_id"] else "every key"
    for exception in added:
        detail = f"{exception.rule}, {scope}, decision {entry.id}: {exception.reason}"
        await visit.note("exception_added", exception.id, detail)


async def _own_keys(visit: Visit) -> set[str]:
    """The ids of the keys that the user may see, whichever team is exception."""
    return {key.id for key in await visit.store.keys.list(visit.teams)}


def exceptable(entry: DecisionRow) -> list[tuple[str, str]]:
    """The rules of a blocked decision, each with the digest of the text it matched."""
    marked = ((finding["rule"], finding.get("digest")) for finding in entry.findings if not finding.get("excepted"))
    return sorted({(rule, digest) for rule, digest in marked if digest})


def not_asked(entry: DecisionRow, marks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The layers that were not asked, on the same texts."""
    digests = sorted({digest for _, digest in marks})
    return [(name, digest) for name in _unasked(entry) for digest in digests]


def _unasked(entry: DecisionRow) -> list[str]:
    """The layers that gave no score since an earlier one had blocked already; next time they would block the text."""
    asked = {layer["layer"] for layer in entry.layers if layer.get("score") is not None}
    return [all_rules_of(layer) for layer in LayerName if layer not in asked]


def state(exception: RuleException, now: datetime) -> str:
    """`holds`, `expired` or `revoked`."""
    if exception.revoked_at is not None:
        return "revoked"
    return "holds" if exception.is_valid(now) else "expired"


def holds_whole_text(entry: DecisionRow) -> bool:
    """Whether the log holds the text as it was, and as one segment, so that a pattern can be made of it."""
    text = entry.text or ""
    return entry.segments == 1 and 0 < len(text) <= MAX_SUGGESTED and len(text) == entry.length


def suggestion(entry: DecisionRow, until: date) -> str:
    """The entries of `exceptions` in config.yaml that last: for the exact text, or else one for each place of it.

    An entry for a place has a `text` that matches nothing yet: by its place alone it would except every text there.
    """
    terms = [f"until: {until}", f"reason: false positive, decision {entry.id}"]
    terms += [f"key: {entry.key_id}"] if entry.key_id else []
    if holds_whole_text(entry):
        rules = sorted({rule for rule, _ in exceptable(entry)})
        return _entries(
            [[_rules_line(entry, rules), *terms, f"text: {_quoted('(?-i)' + re2.escape(entry.text or ''))}"]]
        )
    terms += [f"model: {_quoted(_literal(entry.model))}"] if entry.model else []
    terms.append(f"text: {_quoted(TO_WRITE)}")
    places = _places(entry).items()
    return _entries([[_rules_line(entry, rules), f"path: {_quoted(path)}", *terms] for path, rules in places])


def _entries(entries: Sequence[Sequence[str]]) -> str:
    return "exceptions:\n" + "\n".join("  - " + "\n    ".join(lines) for lines in entries)


def _rules_line(entry: DecisionRow, rules: Sequence[str]) -> str:
    return f"rules: [{', '.join([*rules, *map(json.dumps, _unasked(entry))])}]"


def _places(entry: DecisionRow) -> dict[str, list[str]]:
    """The rules of exceptable findings by path; `*` stands for the positions, which differ from request to request."""
    places: dict[str, set[str]] = {}
    for finding in entry.findings:
        if finding.get("digest") and not finding.get("excepted"):
            path = ".".join("*" if part.isdigit() else part for part in finding["path"].split("."))
            places.setdefault(path, set()).add(finding["rule"])
    return {path: sorted(rules) for path, rules in places.items()}


def _literal(name: str) -> str:
    """A wildcard pattern that matches this name alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _quoted(text: str) -> str:
    """A YAML string in one line with invisible characters escaped, so that the copied text is the scanned one."""
    return "".join(_escaped(char) if is_hidden(char) else char for char in json.dumps(text, ensure_ascii=False))


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def _terms(visit: Visit, entry: DecisionRow) -> dict[str, Any]:
    """The exception's terms in the form. Raises `RequestError`."""
    checks, form = Checks(), visit.form
    lasts = checks.read(lambda: _lasts(form))
    scope = checks.read(lambda: _scope(visit)) or "key"
    reason = checks.read(lambda: _reason(form))
    checks.done()
    return {
        "lasts": lasts,
        "reason": reason,
        "author": visit.name,
        "key_id": entry.key_id if scope == "key" else None,
        "decision": entry.id,
    }


def _scope(visit: Visit) -> str | None:
    """For whom an exception is: every key only if the user sees all teams."""
    return visit.form.choice("scope", ("key", "all") if visit.teams is None else ("key",))


def _lasts(form: Form) -> timedelta:
    try:
        lasts = timedelta(seconds=form.duration("lasts") or 30 * 86400.0)
    except OverflowError:
        lasts = timedelta.max
    if not timedelta(0) < lasts <= MAX_LIFETIME:
        raise refused(400, f"An exception lasts for at most {MAX_LIFETIME.days} days.", param="lasts")
    return lasts


def _reason(form: Form) -> str:
    if not (reason := form.text("reason", 500)):
        raise refused(400, "Say why this text is harmless.", param="reason")
    return reason
