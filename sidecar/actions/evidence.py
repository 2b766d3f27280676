"""The evidence for and against an action: its names and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sidecar.actions.arguments import Argument

WEIGHTS: Mapping[str, float] = {
    "described": 0.11,
    "spelled_out": 0.16,
    "arguments_named": 0.08,
    "subject": -0.28,
    "delicate": 0.02,
    "reads": -0.1,
    "pointed_at": -0.15,
    "unasked": 0.04,
    "loosely_asked": 0.05,
    "no_link_asked": 0.14,
    "requested_there": 0.05,
    "redirected": 0.07,
    "replaces": 0.07,
    "addressed": 0.23,
    "names_tool": 0.13,
    "object_named": 0.22,
    "better_candidate": 0.16,
    "composed": 0.21,
    "filled_in": 0.23,
    "secret": 0.07,
    "finding": 0.3,
    "same_domain": -0.19,
    "linked": -0.11,
}
"""Evidence by name. The words are those of a refusal's log line and of docs/actions.md."""
Evidence = dict[str, float]


class Assessment(NamedTuple):
    """The score of a call, the argument that has it, and the evidence for it."""

    score: float = 0.0
    argument: Argument | None = None
    evidence: Evidence = {}  # noqa: RUF012 - never changed


def graded(**values: float) -> Evidence:
    """Evidence of which there may be more or less: its weight times its value. None of the value 0."""
    return {name: WEIGHTS[name] * value for name, value in values.items() if value}


def weights(*names: str) -> Evidence:
    """Evidence of these names."""
    return {name: WEIGHTS[name] for name in names}


def assessment(evidence: Evidence, argument: Argument | None = None) -> Assessment:
    """An assessment by this evidence."""
    return Assessment(round(sum(evidence.values()), 2), argument, evidence)
