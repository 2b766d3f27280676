"""Splits a text at the spans of findings, for a template to highlight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sidecar.types import Finding

MOST_SHOWN = 20_000
MOST_SPANS = 200


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text and the rules that matched in it."""

    text: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A rule's match in a text, in code points."""

    start: int
    end: int
    rule: str


def spans(findings: Iterable[Finding | Mapping[str, Any]]) -> list[Span]:
    """The spans of findings, given as objects or as rows of the scan log."""
    places = (item if isinstance(item, Mapping) else _fields(item) for item in findings)
    return [Span(p["start"], p["end"], p["rule"]) for p in places if p["start"] is not None and p["end"] is not None]


def _fields(finding: Finding) -> Mapping[str, Any]:
    return {"start": finding.start, "end": finding.end, "rule": finding.rule}


def pieces(text: str, spans: Iterable[Span], longest: int = MOST_SHOWN) -> list[Piece]:
    """The text, at most `longest` of it, split wherever a span begins or ends."""
    visible = text[:longest]
    inside = [span for span in spans if 0 <= span.start < min(span.end, len(visible))][:MOST_SPANS]
    cuts = sorted(
        {0, len(visible), *(span.start for span in inside), *(min(span.end, len(visible)) for span in inside)}
    )
    return [
        Piece(visible[start:end], tuple(sorted({s.rule for s in inside if s.start < end and s.end > start})))
        for start, end in pairwise(cuts)
    ]
