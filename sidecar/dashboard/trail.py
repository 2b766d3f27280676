"""Audit: who changed what, when and from where; as a page and as a file."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.forms import Form
from sidecar.dashboard.guard import Route, Visit, add_security_headers
from sidecar.dashboard.refresh import refreshed
from sidecar.storage import export_audit
from sidecar.storage.exports import CONTENT_TYPES, MAX_EVENTS, ExportFormat

PAGE = 100
FIELDS = ("actor", "action", "since", "until")


class Trail:
    """The page of the audit trail, for admins."""

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [Route("GET", "/audit", self.show), Route("GET", "/audit/export", self.export)]

    async def show(self, visit: Visit) -> web.Response:
        """The newest entries, filtered, page by page."""
        form = visit.query
        chosen = {name: form.text(name) for name in FIELDS}
        before = form.whole("before", 1, 2**31 - 1)
        events = await visit.store.audit.query(**_criteria(form), before=before, limit=PAGE + 1)
        older = _query(chosen | {"before": str(events[PAGE - 1].id)}) if len(events) > PAGE else None
        values: dict[str, Any] = {
            "events": events[:PAGE],
            "actions": await visit.store.audit.actions(),
            "older": older,
            "chosen": chosen,
            "query": _query(chosen),
            "bound": MAX_EVENTS,
        }
        return refreshed(visit.page("audit.html", **values), form)

    async def export(self, visit: Visit) -> web.StreamResponse:
        """The newest entries that match, streamed as a file; that is an entry, too."""
        kind: ExportFormat = "jsonl" if visit.query.choice("form", ("csv", "jsonl")) == "jsonl" else "csv"
        pieces = export_audit(visit.store.audit, kind, _criteria(visit.query))
        first = await anext(pieces, b"")  # an unavailable store gives an error page, not half a file
        await visit.note("audit_exported", kind, _query({name: visit.query.text(name) for name in FIELDS}))
        answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPES[kind]})
        answer.headers["Content-Disposition"] = f'attachment; filename="audit.{kind}"'
        add_security_headers(answer)
        await answer.prepare(visit.request)
        await answer.write(first)
        async for piece in pieces:
            await answer.write(piece)
        return answer


def _criteria(form: Form) -> dict[str, Any]:
    """The filter of a query. Raises `RequestError`."""
    texts = {name: form.text(name) for name in ("actor", "action")}
    return texts | {name: form.moment(name) for name in ("since", "until")}


def _query(values: dict[str, str]) -> str:
    return urlencode({name: value for name, value in values.items() if value})
