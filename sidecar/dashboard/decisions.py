"""Decisions: the scan log as a filtered list, and one decision with everything that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.exceptions import exceptable, suggestion
from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit, dress
from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.policy import Policy, Rule
from sidecar.storage import DecisionRow, Filter, export
from sidecar.storage.exports import CONTENT_TYPES, ExportFormat
from sidecar.types import Label, LayerName

PAGE = 100
ACTIONS = ("allow", "block", "monitor")
FIELDS = ("since", "until", "key", "model", "label", "action", "layer")
LIVE_SECONDS = 3


def read_filter(form: Form) -> Filter:
    """What a filter form, or a link that carries it, asks for. Raises `RequestError` naming the field."""
    return Filter(
        since=form.moment("since"),
        until=form.moment("until"),
        key_id=form.text("key") or None,
        model=form.text("model") or None,
        label=form.choice("label", list(Label)),
        action=form.choice("action", ACTIONS),
        layer_used=form.choice("layer", list(LayerName)),
    )


def link_of(form: Form, **more: str) -> str:
    """The chosen filter as a query string."""
    return urlencode({name: form.text(name) for name in FIELDS if form.text(name)} | more)


def _for_audit(form: Form) -> str:
    """The filter for the audit trail: of free text, into which anything may be pasted, only that there was some."""
    hidden = {"model": "*"} if form.text("model") else {}
    hidden |= {"key": "*"} if len(form.text("key")) > 8 else {}
    return link_of(Form({**form, **hidden}))


class Decisions:
    """The pages of the scan log."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def routes(self) -> list[Route]:
        """Its pages."""
        return [
            Route("GET", "/decisions", self.show),
            Route("GET", "/decisions/export", self.export),
            Route("GET", "/decisions/{id}", self.one),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The newest decisions that match, page by page; `live=1` loads itself again every few seconds."""
        asked = visit.query
        wanted = read_filter(asked)
        if before := asked.text("before"):
            wanted = await _after(visit, wanted, before)
        found = await visit.store.decisions.query(wanted, PAGE + 1)
        live = bool(asked.text("live")) and not before
        keys = await visit.store.keys.list()
        answer = visit.page(
            "decisions.html",
            entries=found[:PAGE],
            names={key.id: key.name for key in keys},
            keys=keys,
            asked=asked,
            choices={"label": list(Label), "action": ACTIONS, "layer": list(LayerName)},
            query=link_of(asked),
            older=link_of(asked, before=found[PAGE - 1].id) if len(found) > PAGE else None,
            live=live,
            live_link=link_of(asked, live="1"),
        )
        if live:
            answer.headers["Refresh"] = str(LIVE_SECONDS)
        return answer

    async def export(self, visit: Visit) -> web.StreamResponse:
        """All decisions that match, as a file that is written while it is read."""
        form: ExportFormat = "jsonl" if visit.query.choice("form", ("csv", "jsonl")) == "jsonl" else "csv"
        pieces = export(visit.store.decisions, form, read_filter(visit.query))
        first = await anext(pieces, b"")  # a store that is gone is an error page, not half a file
        await visit.note("log_exported", form, _for_audit(visit.query))
        answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPES[form]})
        answer.headers["Content-Disposition"] = f'attachment; filename="decisions.{form}"'
        dress(answer)
        await answer.prepare(visit.request)
        await answer.write(first)
        async for piece in pieces:
            await answer.write(piece)
        return answer

    async def one(self, visit: Visit) -> web.Response:
        """One decision: why, where, how long, and the text where it is kept."""
        entry = await visit.store.decisions.get(visit.request.match_info["id"])
        if entry is None:
            raise refused(404, "There is no such decision; it may be older than the retention (log.retention).")
        found = await visit.store.keys.get(entry.key_id) if entry.key_id else None
        return visit.page(
            "decision.html",
            entry=entry,
            key=found[0] if found else None,
            rules=_rules(self._policy(), entry),
            excepted=(marks := sorted({rule for rule, _ in exceptable(entry)})),
            suggestion=suggestion(entry, marks),
            text=_text(entry),
            now=self._policy().revision,
        )


async def _after(visit: Visit, wanted: Filter, before: str) -> Filter:
    last = await visit.store.decisions.get(before)
    if last is None:
        raise refused(404, "The page to go on from is gone; begin at the newest.")
    return Filter(**{name: getattr(wanted, name) for name in Filter.__slots__ if name != "before"}, before=last)


def _rules(policy: Policy, entry: DecisionRow) -> Mapping[str, Rule]:
    """The rules of today's policy that the decision names."""
    named = {finding["rule"] for finding in entry.findings}
    return {rule.id: rule for rule in policy.rules if rule.id in named}


def _text(entry: DecisionRow) -> list[Piece]:
    """The kept text; with marks where it is the whole text of one segment, so that spans fit."""
    if entry.text is None:
        return []
    fits = entry.segments == 1 and len(entry.text) == entry.length
    return pieces(entry.text, spans(entry.findings) if fits else ())
