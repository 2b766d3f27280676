"""Policies: the rules in force, with score, status and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.charts import share
from sidecar.dashboard.forms import Form, refused
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.refresh import refreshed
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.policy import KINDS, Policy, Rule
from sidecar.storage import SCANS, Group, Marks
from sidecar.types import Label

LAYERS: Mapping[str, str] = {
    "patterns": "rules",
    "hidden_in": "rules",
    "similar_to": "semantic",
    "question": "llm_judge",
}
STATUSES = ("block", "fallback", "hint", "test", "retired")
SORTS = {
    "family": "by family",
    "hits": "most hits first",
    "marked": "most false positives first",
    "score": "highest score first",
    "id": "by id",
}
PAGE = 50
MOST_MARKS = 10
"""Marked decisions on the page of a rule."""
MAX_OFFSET = 100_000


class Policies:
    """The pages of rules."""

    def __init__(self, policy: Callable[[], Policy], status: Callable[[], ServiceStatus]) -> None:
        self._policy, self._status = policy, status

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [Route("GET", "/policies", self.show), Route("GET", "/policies/{id}", self.show_one)]

    async def show(self, visit: Visit) -> web.Response:
        """The rules that match a filter, in an order, page by page."""
        form, policy = visit.query, self._policy()
        sort = form.choice("sort", SORTS) or "family"
        offset = form.whole("offset", 0, MAX_OFFSET) or 0
        groups = await _hits(visit)
        hits = {name: group.scans for name, group in groups.items()}
        marks = await visit.store.exceptions.by_rule(visit.selected_teams)
        marked = {rule: marks_of_rule.exceptions for rule, marks_of_rule in marks.items()}
        rules = sorted(_matching(policy.rules, form), key=_order(sort, hits, marked))
        answer = visit.page(
            "policies.html",
            hits=hits,
            marked=marked,
            rules=rules[offset : offset + PAGE],
            total=len(policy.rules),
            shown=len(rules),
            first=offset + 1,
            revision=policy.revision,
            labels=list(Label),
            statuses=STATUSES,
            form=form,
            sort=sort,
            sorts=SORTS,
            by={name: _link(form, sort=name) for name in SORTS},
            earlier=_link(form, offset=str(max(0, offset - PAGE))) if offset else None,
            later=_link(form, offset=str(offset + PAGE)) if offset + PAGE < len(rules) else None,
            layer=layer_of,
            switches=self._status().settings.rules,
        )
        return refreshed(answer, form)

    async def show_one(self, visit: Visit) -> web.Response:
        """One rule with everything in its definition."""
        rule_id = visit.request.match_info["id"]
        rule = next((rule for rule in self._policy().rules if rule.id == rule_id), None)
        if rule is None:
            raise refused(404, "There is no such rule in the policy that runs.")
        kind = kind_of(rule)
        seeks = (rule.question,) if kind == "question" else getattr(rule, kind)
        groups = await _hits(visit)
        return visit.page(
            "rule.html",
            rule=rule,
            switch=self._status().settings.rules.get(rule_id),
            kind=kind,
            seeks=seeks,
            layer=layer_of(rule),
            hits=groups.get(rule_id, Group(rule_id, 0, 0)),
            marks=(await visit.store.exceptions.by_rule(visit.selected_teams)).get(rule_id, Marks()),
            newest=await visit.store.exceptions.query(MOST_MARKS, rule=rule_id, teams=visit.selected_teams),
            names={key.id: key.name for key in await visit.keys()},
            share=share if visit.selected_teams is None else None,  # their hits are of the newest decisions only
        )


async def _hits(visit: Visit) -> dict[str | None, Group]:
    """The scans that each rule matched; of a user who is limited to teams, of the newest scans alone."""
    figures = visit.store.analytics
    return {group.name: group for group in await figures.by_rule(await figures.newest(visit.within(SCANS)))}


def _matching(rules: Sequence[Rule], form: Form) -> list[Rule]:
    """The rules that the filter of a form leaves. Raises `RequestError`."""
    label, status = form.choice("label", list(Label)), form.choice("status", STATUSES)
    words = form.text("text").lower()
    return [
        rule
        for rule in rules
        if (not label or rule.label == label)
        and (not status or rule.status == status)
        and words in f"{rule.id} {rule.title} {rule.title_native or ''}".lower()
    ]


def _order(sort: str, hits: Mapping[str | None, int], marked: Mapping[str, int]) -> Callable[[Rule], Any]:
    """The sort key of a rule: the most first, then in the order of the files."""
    families = list(Label)
    value: Mapping[str, Callable[[Rule], float]] = {
        "family": lambda rule: families.index(rule.label),
        "hits": lambda rule: -hits.get(rule.id, 0),
        "marked": lambda rule: -marked.get(rule.id, 0),
        "score": lambda rule: -rule.score,
    }
    return (lambda rule: rule.id) if sort == "id" else value[sort]


def _link(form: Form, **changes: str) -> str:
    """The chosen filter and order with changes as a query string."""
    parameters = {name: form.text(name) for name in ("text", "label", "status", "sort") if form.text(name)}
    return urlencode(parameters | changes)


def kind_of(rule: Rule) -> str:
    """Which of the four kinds of detection the rule uses."""
    return next(kind for kind in KINDS if getattr(rule, kind))


def layer_of(rule: Rule) -> str:
    """The layer that runs it."""
    return LAYERS[kind_of(rule)]
