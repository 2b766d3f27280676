"""A logged request as a request: its texts in order, who says them, through which tool, and what was found where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.storage import DecisionRow

SOURCES = {
    "user": "user",
    "untrusted": "tool or document",
    "application": "application",
    "model": "model",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a request. `skipped`: texts before it that are not listed; `text`: empty where it is not kept."""

    number: int
    path: str
    source: str
    length: int
    tool: str
    joined: bool
    rules: tuple[str, ...]
    blocks: bool
    skipped: int
    text: list[Piece]


def parts(outline: Sequence[dict[str, Any]], findings: Sequence[dict[str, Any]], text: str | None) -> list[Part]:
    """The listed texts of a request, in order, given its findings and what is kept of its text."""
    listed = []
    paths = [str(item["path"]) for item in outline]
    following = 0
    for item in outline:
        part_findings = _findings(findings, item, paths)
        listed.append(_part(text, item, part_findings, item["n"] - following))
        following = item["n"] + 1
    return listed


def skipped_after(entry: DecisionRow) -> int:
    """How many texts follow the last one that is listed."""
    return max(0, entry.segments - entry.request[-1]["n"] - 1) if entry.request else 0


def _findings(findings: Sequence[dict[str, Any]], item: dict[str, Any], paths: Sequence[str]) -> list[dict[str, Any]]:
    """The findings in a text: at its path, or at one that no other text has, since several may be packed into one."""
    rules = set(item.get("rules", ()))
    matching = [finding for finding in findings if finding["rule"] in rules]
    return [finding for finding in matching if finding["path"] == item["path"] or finding["path"] not in paths]


def _part(text: str | None, item: dict[str, Any], findings: Sequence[dict[str, Any]], skipped: int) -> Part:
    return Part(
        number=item["n"] + 1,
        path=str(item["path"]),
        source=SOURCES.get(str(item["source"]), str(item["source"])),
        length=item["length"],
        tool=str(item.get("tool", "")),
        joined=bool(item.get("joined")),
        rules=tuple(item.get("rules", ())),
        blocks=any(finding.get("decides") for finding in findings),
        skipped=skipped,
        text=_text(text, item, findings),
    )


def _text(text: str | None, item: dict[str, Any], findings: Sequence[dict[str, Any]]) -> list[Piece]:
    """The kept text, highlighted if it is the whole text as it was, so that the spans are valid."""
    start, end = item.get("start", 0), item.get("end", 0)
    if not text or not start < end <= len(text):
        return []
    return pieces(text[start:end], spans(findings) if end - start == item["length"] else ())
