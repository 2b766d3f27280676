"""Policies: the rules in force, with score, status and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import groupby

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit
from sidecar.policy import KINDS, Policy, Rule
from sidecar.types import Label

LAYERS: Mapping[str, str] = {
    "patterns": "rules",
    "hidden_in": "rules",
    "similar_to": "semantic",
    "question": "llm_judge",
}
STATUSES = ("block", "fallback", "hint", "test", "retired")


class Policies:
    """The pages of rules."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [Route("GET", "/policies", self.show), Route("GET", "/policies/{id}", self.show_one)]

    async def show(self, visit: Visit) -> web.Response:
        """All rules by family, or those that match a filter."""
        form, policy = visit.query, self._policy()
        label, status = form.choice("label", list(Label)), form.choice("status", STATUSES)
        words = form.text("text").lower()
        rules = [
            rule
            for rule in policy.rules
            if (not label or rule.label == label)
            and (not status or rule.status == status)
            and words in f"{rule.id} {rule.title} {rule.title_native or ''}".lower()
        ]
        hits = {group.name: group for group in await visit.store.analytics.by_rule()}
        return visit.page(
            "policies.html",
            hits=hits,
            marked=await _marked(visit),
            families=_families(rules),
            total=len(policy.rules),
            shown=len(rules),
            revision=policy.revision,
            labels=list(Label),
            statuses=STATUSES,
            form=form,
            layer=layer_of,
        )

    async def show_one(self, visit: Visit) -> web.Response:
        """One rule with everything in its definition."""
        rule_id = visit.request.match_info["id"]
        rule = next((rule for rule in self._policy().rules if rule.id == rule_id), None)
        if rule is None:
            raise refused(404, "There is no such rule in the policy that runs.")
        kind = kind_of(rule)
        seeks = (rule.question,) if kind == "question" else getattr(rule, kind)
        return visit.page("rule.html", rule=rule, kind=kind, seeks=seeks, layer=layer_of(rule))


async def _marked(visit: Visit) -> Counter[str]:
    """How often each rule was marked as a false positive."""
    return Counter(exception.rule for exception in await visit.store.exceptions.query())


def _families(rules: list[Rule]) -> list[tuple[Label, list[Rule]]]:
    order = list(Label)
    ranked = sorted(rules, key=lambda rule: order.index(rule.label))
    return [(label, list(members)) for label, members in groupby(ranked, key=lambda rule: rule.label)]


def kind_of(rule: Rule) -> str:
    """Which of the four kinds of detection the rule uses."""
    return next(kind for kind in KINDS if getattr(rule, kind))


def layer_of(rule: Rule) -> str:
    """The layer that runs it."""
    return LAYERS[kind_of(rule)]
