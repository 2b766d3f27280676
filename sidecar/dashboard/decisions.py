"""Decisions: the scan log as a filtered list, and the details of one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from aiohttp import web

from sidecar.dashboard.exceptions import exceptable, holds_whole_text, suggestion
from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit, add_security_headers, to
from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.dashboard.periods import RANGES
from sidecar.dashboard.request_view import parts, skipped_after
from sidecar.policy import Policy, Rule
from sidecar.scan.exceptions import MAX_LIFETIME
from sidecar.storage import ApiKey, DecisionPage, DecisionRow, Filter, Sort, export
from sidecar.storage.decisions import WINDOW
from sidecar.storage.exports import CONTENT_TYPES, ExportFormat
from sidecar.types import Label, LayerName
from sidecar.util.units import RuleChange, parse_rule_changes

PAGE = 100
ACTIONS = ("allow", "block", "monitor")
CHOICES = {
    "kind": ("scan", "other"),
    "recommended": ("allow", "block"),
    "outcome": ("failed", "unscanned"),
    "without": ("key", "model"),
}
SORTS: Mapping[Sort, str] = {
    "at": "newest first",
    "risk_score": "highest risk first",
    "latency_ms": "slowest first",
    "length": "longest first",
}
FIELDS = (
    *("q", "range", "since", "until", "team", "key", "client", "model", "label", "action", "layer", "ran", "rule"),
    *(*CHOICES, "sort"),
)
LIVE_SECONDS = 3


def read_filter(form: Form) -> Filter:
    """The filter in a form or query. Raises `RequestError` naming the field."""
    return Filter(
        since=form.moment("since") or _beginning(form.choice("range", [span.name for span in RANGES])),
        until=form.moment("until"),
        key_id=form.text("key") or None,
        client=form.text("client") or None,
        rule=form.text("rule") or None,
        model=form.text("model") or None,
        label=form.choice("label", list(Label)),
        action=form.choice("action", ACTIONS),
        layer_used=form.choice("layer", list(LayerName)),
        ran=form.choice("ran", list(LayerName)),
        words=form.text("q") or None,
        **{name: form.choice(name, choices) for name, choices in CHOICES.items()},  # type: ignore[arg-type]
    )


def _beginning(name: str | None) -> datetime | None:
    """The beginning of a time range that ends now."""
    return next((datetime.now(UTC) - span.length for span in RANGES if span.name == name), None)


def read_sort(form: Form) -> Sort:
    """The order that a query chooses."""
    name = form.choice("sort", SORTS)
    return next((sort for sort in SORTS if sort == name), "at")


def link_of(form: Form, **extra: str) -> str:
    """The chosen filter as a query string."""
    return urlencode({name: form.text(name) for name in FIELDS if form.text(name)} | extra)


def _for_audit(form: Form) -> str:
    """The filter for the audit trail: of free text, which may contain anything, only that it was set."""
    hidden = {name: "*" for name in ("model", "client", "rule", "q") if form.text(name)}
    hidden |= {"key": "*"} if len(form.text("key")) > 8 else {}
    return link_of(Form({**form, **hidden}))


class Decisions:
    """The pages of the scan log."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/decisions", self.show),
            Route("GET", "/decisions/export", self.export),
            Route("GET", "/decisions/find", self.find),
            Route("GET", "/decisions/{id}", self.show_one),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """The decisions that match, page by page; `live=1` refreshes every few seconds. An id leads to its page."""
        form = visit.query
        if (words := form.text("q")) and await visit.decision(words):
            return to(f"/decisions/{quote(words, safe='')}")
        criteria, sort = visit.within(read_filter(form)), read_sort(form)
        before, offset = form.text("before"), form.whole("offset", 0, WINDOW) or 0
        if before:
            criteria = await _after(visit, criteria, before)
        page = await visit.store.decisions.page(criteria, sort, limit=PAGE + 1, offset=offset)
        live = bool(form.text("live")) and not (before or offset)
        keys = await visit.keys()
        answer = visit.page(
            "decisions.html",
            entries=page.rows[:PAGE],
            names={key.id: key.name for key in keys},
            keys=keys,
            teams=await visit.team_choices(),
            views=await visit.store.views.list(visit.name),
            ranges=RANGES,
            form=form,
            choices={"label": list(Label), "action": ACTIONS, "layer": list(LayerName), **CHOICES},
            sort=sort,
            sorts=SORTS,
            by={name: link_of(Form({**form, "sort": name})) for name in SORTS},
            window=WINDOW,
            query=link_of(form),
            older=_next_page(form, page, sort, offset),
            further=link_of(form, before=page.last_row) if page.last_row else None,
            live=live,
            live_link=link_of(form, live="1"),
        )
        if live:
            answer.headers["Refresh"] = str(LIVE_SECONDS)
        return answer

    async def export(self, visit: Visit) -> web.StreamResponse:
        """All decisions that match, streamed as a file."""
        form: ExportFormat = "jsonl" if visit.query.choice("form", ("csv", "jsonl")) == "jsonl" else "csv"
        pieces = export(visit.store.decisions, form, visit.within(read_filter(visit.query)))
        first = await anext(pieces, b"")  # an unavailable store gives an error page, not half a file
        await visit.note("log_exported", form, _for_audit(visit.query))
        answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPES[form]})
        answer.headers["Content-Disposition"] = f'attachment; filename="decisions.{form}"'
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
        entry = await visit.decision(visit.request.match_info["id"])
        if entry is None:
            raise refused(404, "There is no such decision; it may be older than the retention (log.retention).")
        row = await visit.store.keys.get(entry.key_id) if entry.key_id else None
        return visit.page(
            "decision.html",
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
        )


def reasons_to_allow(entry: DecisionRow, key: ApiKey | None) -> list[str]:
    """Why a request with findings was not refused, in words; empty for one that was, or without findings."""
    if entry.action == "block":
        return []
    reasons = ["monitor mode: it would have been refused otherwise"] if entry.action == "monitor" else []
    if entry.threshold is not None and 0 < entry.risk_score < entry.threshold:
        reasons.append(f"the risk is below the threshold of {entry.threshold:g}")
    changes = parse_rule_changes(key.rules) if key and key.rules else {}
    silent = [finding for finding in entry.findings if not finding.get("decides")]
    excepted = sorted({str(finding["rule"]) for finding in silent if finding.get("excepted")})
    off = sorted(
        {rule for finding in silent if changes.get(rule := str(finding["rule"]), RuleChange()).status == "off"}
    )
    reasons += [f"an exception covers {', '.join(excepted)}"] if excepted else []
    return reasons + ([f"{', '.join(off)} switched off for this key"] if off else [])


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
