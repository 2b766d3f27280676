"""Decisions: the scan log as a filtered list, and the details of one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import web

from sidecar.dashboard.decision_query import (
    ACTIONS,
    CHOICES,
    FAILURES,
    FIELDS,
    SORTS,
    file_name,
    for_audit,
    link_of,
    read_filter,
    read_sort,
)
from sidecar.dashboard.exceptions import exceptable, holds_whole_text, mark_as_false_positive, state, suggestion
from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit, add_security_headers, to
from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.dashboard.periods import RANGES
from sidecar.dashboard.reasons import excerpt, leading, reasons_to_allow, reasons_to_block
from sidecar.dashboard.request_view import parts, skipped_after
from sidecar.errors import RequestError
from sidecar.policy import Policy, Rule
from sidecar.scan.exceptions import MAX_LIFETIME, RuleExceptions
from sidecar.storage import NOT_SCANNED, DecisionPage, DecisionRow, Filter, Sort, export
from sidecar.storage.decisions import WINDOW
from sidecar.storage.exports import CONTENT_TYPES, ExportFormat
from sidecar.types import Label, LayerName

PAGE = 100
MAX_COUNTED = 1_000
"""Matches that are counted; beyond it the page says that there are more."""
LIVE_SECONDS = 3


class Decisions:
    """The pages of the scan log."""

    def __init__(self, policy: Callable[[], Policy], exceptions: RuleExceptions) -> None:
        self._policy, self._exceptions = policy, exceptions

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/decisions", self.show),
            Route("GET", "/decisions/export", self.export),
            Route("GET", "/decisions/find", self.find),
            Route("GET", "/decisions/{id}", self.show_one),
            Route("POST", "/decisions/{id}/exception", self.mark),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The decisions that match, page by page; `live=1` refreshes every few seconds. An id leads to its page."""
        form = visit.query
        if (words := form.get("q", "").strip()) and await visit.decision(words):
            return to(f"/decisions/{quote(words, safe='')}")
        try:
            criteria, sort = visit.within(read_filter(form)), read_sort(form)
        except RequestError as error:
            return await self._list(visit, error)
        before, offset = form.text("before"), form.whole("offset", 0, WINDOW) or 0
        if before:
            criteria = await _after(visit, criteria, before)
        counted = 0 if before or offset else MAX_COUNTED + 1
        page = await visit.store.decisions.page(criteria, sort, limit=PAGE + 1, offset=offset, counted=counted)
        live = bool(form.text("live")) and not (before or offset)
        answer = await self._list(
            visit,
            entries=page.rows[:PAGE],
            matches=page.matches if counted else None,
            sort=sort,
            by={name: link_of(Form({**form, "sort": name})) for name in SORTS},
            query=link_of(form),
            older=_next_page(form, page, sort, offset),
            further=link_of(form, before=page.last_row) if page.last_row else None,
            live=live,
            live_link=link_of(form, live="1"),
        )
        if live:
            answer.headers["Refresh"] = str(LIVE_SECONDS)
        return answer

    async def _list(self, visit: Visit, error: RequestError | None = None, **values: Any) -> web.Response:
        """The page of the list; with an error the form as it was typed, and no rows."""
        no_rows: dict[str, Any] = {
            "entries": [],
            "matches": None,
            "sort": "at",
            "by": dict.fromkeys(SORTS, ""),
            "query": "",
        }
        keys = await visit.keys()
        return visit.page(
            "decisions.html",
            error.status if error else 200,
            **no_rows | {"older": None, "further": None, "live": False, "live_link": ""} | values,
            error=error,
            keys=keys,
            names={key.id: key.name for key in keys},
            titles={rule.id: rule.title for rule in self._policy().rules},
            teams=await visit.team_choices(),
            views=await visit.store.views.list(visit.name),
            ranges=RANGES,
            form=visit.query,
            choices={"label": list(Label), "action": ACTIONS, "layer": list(LayerName), **CHOICES},
            failures=FAILURES,
            not_scanned=NOT_SCANNED,
            sorts=SORTS,
            window=WINDOW,
            most=MAX_COUNTED,
            leading=leading,
            excerpt=excerpt,
        )

    async def export(self, visit: Visit) -> web.StreamResponse:
        """All decisions that match, streamed as a file."""
        form: ExportFormat = "jsonl" if visit.query.choice("form", ("csv", "jsonl")) == "jsonl" else "csv"
        keys = {key.id: key for key in await visit.store.keys.list(visit.teams)}
        pieces = export(visit.store.decisions, form, visit.within(read_filter(visit.query)), keys=keys)
        first = await anext(pieces, b"")  # an unavailable store gives an error page, not half a file
        await visit.note("log_exported", form, for_audit(visit.query))
        answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPES[form]})
        name = file_name(visit.query, form, datetime.now(UTC))
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        add_security_headers(answer)
        await answer.prepare(visit.request)
        await answer.write(first)
        async for piece in pieces:
            await answer.write(piece)
        return answer

    async def find(self, visit: Visit) -> web.Response:
        """Redirects to the decision with the given id."""
        return to(f"/decisions/{quote(visit.query.text('id').strip(), safe='')}")

    async def show_one(self, visit: Visit) -> web.Response:
        """One decision: findings, positions, timings, and the text where it is stored."""
        return await self._page_of(visit, await _entry(visit))

    async def mark(self, visit: Visit) -> web.Response:
        """Mark it as a false positive; what is wrong with the form is shown beside its fields."""
        entry = await _entry(visit)
        try:
            await mark_as_false_positive(visit, entry, self._exceptions)
        except RequestError as error:
            return await self._page_of(visit, entry, error)
        return to("/exceptions", "added")

    async def _page_of(self, visit: Visit, entry: DecisionRow, error: RequestError | None = None) -> web.Response:
        row = await visit.store.keys.get(entry.key_id) if entry.key_id else None
        return visit.page(
            "decision.html",
            error.status if error else 200,
            error=error,
            form=visit.form,
            made=(made := await visit.store.exceptions.of_decision(entry.id)),
            is_marked=any(exception.is_valid(datetime.now(UTC)) for exception in made),
            state=lambda exception: state(exception, datetime.now(UTC)),
            entry=entry,
            key=row[0] if row else None,
            rules=_rules(self._policy(), entry),
            excepted=(marks := sorted({rule for rule, _ in exceptable(entry)})),
            suggestion=suggestion(entry, (datetime.now(UTC) + MAX_LIFETIME).date()) if marks else "",
            is_exact=holds_whole_text(entry),
            text=_text(entry),
            parts=parts(entry.request or (), entry.findings, entry.text),
            skipped_after=skipped_after(entry),
            now=self._policy().revision,
            reasons=reasons_to_allow(entry, row[0] if row else None),
            reasons_to_block=reasons_to_block(entry),
            back=_back(visit.query),
        )


async def _entry(visit: Visit) -> DecisionRow:
    """The decision of the address. Raises `RequestError`."""
    entry = await visit.decision(visit.request.match_info["id"])
    if entry is None:
        raise refused(404, "There is no such decision; it may be older than the retention (log.retention).")
    return entry


def _back(form: Form) -> str:
    """The query of the list that a decision was opened from."""
    return urlencode({name: form[name] for name in FIELDS if form.get(name)})


def _next_page(form: Form, page: DecisionPage, sort: Sort, offset: int) -> str | None:
    """The query of the next page of the same list; None after the last."""
    if len(page.rows) <= PAGE:
        return None
    if sort == "at":
        return link_of(form, before=page.rows[PAGE - 1].id)
    position = {"before": form.text("before")} if form.text("before") else {}
    return link_of(form, offset=str(offset + PAGE), **position)


async def _after(visit: Visit, criteria: Filter, before: str) -> Filter:
    last = await visit.decision(before)
    if last is None:
        raise refused(404, "The page to go on from is gone; begin at the newest.")
    return Filter(**{name: getattr(criteria, name) for name in Filter.__slots__ if name != "before"}, before=last)


def _rules(policy: Policy, entry: DecisionRow) -> Mapping[str, Rule]:
    """The rules of the current policy that the decision names."""
    named = {finding["rule"] for finding in entry.findings}
    return {rule.id: rule for rule in policy.rules if rule.id in named}


def _text(entry: DecisionRow) -> list[Piece]:
    """The stored text, with highlights if it is the complete text of one segment, so that spans are valid."""
    if entry.text is None:
        return []
    fits = entry.segments == 1 and len(entry.text) == entry.length
    return pieces(entry.text, spans(entry.findings) if fits else ())
