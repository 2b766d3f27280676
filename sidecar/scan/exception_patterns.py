"""Exceptions of the settings: rules that do not count on texts by their pattern, path or tool (`exceptions`).

A pattern must match a whole text, so that nothing can be appended to an excepted one. A text that is excepted stays
part of the joined segments: there all rules read it, and the excepted rules a copy without it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sidecar.config import ExceptionTerms
from sidecar.extraction.joining import without
from sidecar.policy import compiled
from sidecar.types import ScanRequest, Segment, Source

Rules = tuple[frozenset[str], ...]
NOTHING: frozenset[str] = frozenset()


class PatternExceptions:
    """The exceptions of one configuration."""

    def __init__(self, terms: Sequence[ExceptionTerms] = ()) -> None:
        self._terms = tuple(terms)

    def apply(self, request: ScanRequest, key_ids: Collection[str]) -> tuple[ScanRequest, Rules]:
        """The request, with copies of joined segments where needed, and the excepted rules of each of its segments.

        The rules are empty if no exception applies.
        """
        valid = [terms for terms in self._terms if _is_meant(terms, request, key_ids)]
        separate = [
            NOTHING if segment.joined else self._rules(segment, valid, request.tools) for segment in request.segments
        ]
        if not any(separate):
            return request, ()
        texts = _by_text(request.segments, tuple(separate))
        segments, found = list(request.segments), list(separate)
        for number, segment in enumerate(request.segments):
            held = {part: rules for part in segment.parts if (rules := texts.get((part, segment.source)))}
            if held:
                # A rule that only some of these texts are excepted from counts on the whole: an attack may be split.
                common = frozenset.intersection(*held.values())
                if common:
                    found[number] = common
                    segments.append(without(segment, held))
                    found.append(NOTHING)
        return replace(request, segments=tuple(segments)), tuple(found)

    def _rules(self, segment: Segment, valid: Sequence[ExceptionTerms], tools: Mapping[str, str]) -> frozenset[str]:
        return frozenset(rule for terms in valid if _covers(terms, segment, tools) for rule in terms.rules)


def _by_text(
    segments: Sequence[Segment], separate: Sequence[frozenset[str]]
) -> dict[tuple[str, Source], frozenset[str]]:
    """The rules excepted on a text wherever a source says it."""
    texts: dict[tuple[str, Source], frozenset[str]] = {}
    for segment, rules in zip(segments, separate, strict=True):
        if not segment.joined:
            texts[segment.text, segment.source] = texts.get((segment.text, segment.source), rules) & rules
    return texts


def _is_meant(terms: ExceptionTerms, request: ScanRequest, key_ids: Collection[str]) -> bool:
    is_for_model = terms.model is None or fnmatch.fnmatchcase(request.model or "", terms.model)
    is_for_key = terms.key is None or terms.key in key_ids
    return is_for_model and is_for_key and datetime.now(UTC).date() <= terms.until


def _covers(terms: ExceptionTerms, segment: Segment, tools: Mapping[str, str]) -> bool:
    paths = (*segment.paths, *segment.repeated)
    if terms.path is not None and not all(fnmatch.fnmatchcase(path, terms.path) for path in paths):
        return False
    if terms.tool is not None and not all(_is_from(terms.tool, path, tools) for path in paths):
        return False
    return terms.text is None or bool(compiled(terms.text).fullmatch(segment.text))


def _is_from(pattern: str, path: str, tools: Mapping[str, str]) -> bool:
    tool = _tool(path, tools)
    return bool(tool) and fnmatch.fnmatchcase(tool, pattern)


def _tool(path: str, tools: Mapping[str, str]) -> str:
    """The tool whose result a path is part of; empty if it is none."""
    while path:
        if path in tools:
            return tools[path]
        path = path.rpartition(".")[0]
    return ""


def merge(first: Rules, second: Rules) -> Rules:
    """The excepted rules of both; one of them may be empty."""
    if not (first and second):
        return first or second
    return tuple(left | right for left, right in zip(first, second, strict=True))
