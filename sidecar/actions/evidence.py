"""The evidence for and against an action: its names and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sidecar.actions.arguments import Argument

WEIGHTS: Mapping[str, float] = {
    "unasked": 0.45,
    "loosely_asked": 0.2,
    "no_link_asked": 0.25,
    "prose": 0.25,
    "requested_there": 0.3,
    "solicited": 0.2,
    "redirected": 0.25,
    "replaces": 0.25,
    "addressed": 0.15,
    "names_tool": 0.3,
    "object_named": 0.2,
    "better_candidate": 0.25,
    "composed": 0.3,
    "filled_in": 0.5,
    "secret": 0.3,
    "unheard": 0.35,
    "finding": 0.3,
    "same_domain": -0.3,
    "linked": -0.3,
}
"""Evidence by name. The words are those of a refusal's log line and of docs/actions.md."""
Evidence = dict[str, float]


class Assessment(NamedTuple):
    """The score of a call, the argument that has it, and the evidence for it."""

    score: float = 0.0
    argument: Argument | None = None
    evidence: Evidence = {}  # noqa: RUF012 - never changed


def weights(*names: str) -> Evidence:
    """Evidence of these names."""
    return {name: WEIGHTS[name] for name in names}


def assessment(evidence: Evidence, argument: Argument | None = None) -> Assessment:
    """An assessment by this evidence."""
    return Assessment(round(sum(evidence.values()), 2), argument, evidence)
