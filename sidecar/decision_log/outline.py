"""The outline of a request in the scan log: its texts in order, each with author, place, tool and length.

It holds no text. Where the log keeps the text, offsets say where each part of it is. Of long requests it has the texts
with findings, their neighbours, and both ends.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from sidecar.decision_log.rows import mask_path
from sidecar.types import Segment, Verdict

MAX_ENTRIES = 40
ENDS = 3
"""Texts at the beginning and at the end that are always part of it."""
NEIGHBOURS = 1
"""Texts before and after one with findings that are part of it."""
MAX_TOOL = 64
MAX_RULES = 8
_NAME = frozenset(string.ascii_letters + string.digits + "-_.:/")


def outline(
    segments: Sequence[Segment], verdict: Verdict, tools: Mapping[str, str], kept_texts: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """An entry for each chosen segment. `kept_texts`: what the log keeps of the leading ones, joined by line breaks."""
    rules: dict[str, set[str]] = {}
    for finding in verdict.findings:
        rules.setdefault(finding.path, set()).add(finding.rule)
    hit = [index for index, segment in enumerate(segments) if any(path in rules for path in segment.paths)]
    starts = list(accumulate((len(text) + 1 for text in kept_texts), initial=0))
    return [
        _entry(index, segments[index], tools, rules)
        | ({"start": starts[index], "end": starts[index] + len(kept_texts[index])} if index < len(kept_texts) else {})
        for index in _entry_indexes(len(segments), hit)
    ]


def _entry_indexes(count: int, hit: Sequence[int]) -> list[int]:
    """The indexes of the entries, in order; those with findings take precedence."""
    near = (at for index in hit for at in range(index - NEIGHBOURS, index + NEIGHBOURS + 1))
    ends = (*range(ENDS), *range(count - ENDS, count))
    indexes = dict.fromkeys(index for index in (*hit, *near, *ends) if 0 <= index < count)
    return sorted(list(indexes)[:MAX_ENTRIES])


def _entry(index: int, segment: Segment, tools: Mapping[str, str], rules: Mapping[str, set[str]]) -> dict[str, Any]:
    tool, matched = tool_of(segment.path, tools), set().union(*(rules.get(path, ()) for path in segment.paths))
    entry: dict[str, Any] = {
        "n": index,
        "path": mask_path(segment.path),
        "source": str(segment.source),
        "length": len(segment.text),
    }
    entry |= {"rules": sorted(matched)[:MAX_RULES]} if matched else {}
    return entry | ({"tool": tool} if tool else {}) | ({"joined": True} if segment.joined else {})


def tool_of(path: str, tools: Mapping[str, str]) -> str:
    """The tool whose result a path is part of; `*` if its name may be more than a name, empty without one."""
    while path:
        if path in tools:
            name = tools[path]
            return name if len(name) <= MAX_TOOL and _NAME.issuperset(name) else "*"
        path = path.rpartition(".")[0]
    return ""
