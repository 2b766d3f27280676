"""The result of the scan of one file: its findings with line and column, and the two levels `block` and `hint`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sidecar.file_scan.discovery import TextFile
from sidecar.types import Action, Finding, Label, Verdict

Level = Literal["block", "hint"]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: line and column count from 1, in code points."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Place:
    """A finding in a file. `end` is the position after its last character."""

    rule: str
    label: str
    score: float
    level: Level
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class FileResult:
    """What was found in a file. `problem`: why it was not scanned; `error`: whether that is one."""

    path: Path
    verdict: Verdict | None = None
    places: tuple[Place, ...] = ()
    problem: str | None = None
    error: bool = False

    def reaches(self, level: Level) -> bool:
        """Whether something of this level, or of a higher one, was found."""
        return any(place.level == "block" or level == "hint" for place in self.places)


def result_of(file: TextFile, verdict: Verdict, threshold: float) -> FileResult:
    """The result of a scanned file, in which findings block from this score."""
    if verdict.failure and verdict.action is Action.BLOCK:
        return FileResult(file.path, verdict, problem=f"could not be scanned ({verdict.failure})", error=True)
    lines = _line_starts(file.text)
    places = [_place(finding, level, lines, len(file.text)) for finding, level in _levels(verdict, threshold)]
    unique = {(place.rule, place.start): place for place in places}
    return FileResult(file.path, verdict, tuple(sorted(unique.values(), key=lambda place: _key(place.start))))


def _levels(verdict: Verdict, threshold: float) -> Iterable[tuple[Finding, Level]]:
    """The findings that make the verdict block, and the others that are a hint. Personal data alone is neither."""
    ranked = sorted(verdict.findings, key=lambda finding: -finding.score)
    blocks = verdict.action is Action.BLOCK
    deciding = [finding for finding in ranked if finding.decides and finding.score >= threshold]
    decisive = (deciding or ranked[:1]) if blocks else []
    for finding in ranked:
        if finding in decisive:
            yield finding, "block"
        elif finding.label is not Label.PII_DETECTED and (finding.decides or finding.hint):
            yield finding, "hint"


def _place(finding: Finding, level: Level, lines: list[int], length: int) -> Place:
    start = finding.start or 0
    end = min(length, finding.end if finding.end is not None else start)
    place = _position(start, lines), _position(max(start, end), lines)
    return Place(finding.rule, str(finding.label), round(finding.score, 4), level, *place)


def _line_starts(text: str) -> list[int]:
    return [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]


def _position(offset: int, lines: list[int]) -> Position:
    line = bisect_right(lines, offset) - 1
    return Position(line + 1, offset - lines[line] + 1)


def _key(position: Position) -> tuple[int, int]:
    return position.line, position.column
