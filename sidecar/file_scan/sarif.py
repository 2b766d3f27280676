"""The results as SARIF 2.1.0, which code hosts show beside the lines of a file (OASIS, 27 March 2020)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sidecar import __version__
from sidecar.file_scan.results import FileResult, Place
from sidecar.taxonomy import identifiers
from sidecar.types import Label

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"block": "error", "hint": "note"}


def sarif(results: Sequence[FileResult], titles: Mapping[str, str]) -> dict[str, Any]:
    """A log of one run. `titles`: those of the rules, by id."""
    labels = {place.rule: place.label for result in results for place in result.places}
    rules = sorted(labels)
    driver = {
        "name": "prompt-sidecar",
        "version": __version__,
        "rules": [
            {
                "id": rule,
                "shortDescription": {"text": titles.get(rule, rule)},
                "properties": {"tags": list(identifiers(rule, Label(labels[rule])))},
            }
            for rule in rules
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(results)],
        "results": [
            _result(result, place, rules.index(place.rule), titles) for result in results for place in result.places
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(result: FileResult, place: Place, index: int, titles: Mapping[str, str]) -> dict[str, Any]:
    region = {
        "startLine": place.start.line,
        "startColumn": place.start.column,
        "endLine": place.end.line,
        "endColumn": place.end.column,
    }
    location = {"artifactLocation": {"uri": _uri(result.path)}, "region": region}
    return {
        "ruleId": place.rule,
        "ruleIndex": index,
        "level": _LEVELS[place.level],
        "message": {"text": f"{titles.get(place.rule, place.label)} ({place.label}, score {place.score:.2f})"},
        "locations": [{"physicalLocation": location}],
        "properties": {"score": place.score, "label": place.label, "level": place.level},
    }


def _uri(path: Path) -> str:
    """A reference as RFC 3986 defines it: blanks, other delimiters and bytes that are not ASCII are escaped."""
    return quote(os.fsencode(path.as_posix()))


def _invocation(results: Sequence[FileResult]) -> dict[str, Any]:
    """Whether all was scanned, and what was not."""
    notes = [
        {
            "level": "error" if result.error else "note",
            "message": {"text": f"not scanned: {result.problem}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(result.path)}}}],
        }
        for result in results
        if result.problem
    ]
    return {
        "executionSuccessful": not any(result.error for result in results),
        "toolExecutionNotifications": notes,
    }
