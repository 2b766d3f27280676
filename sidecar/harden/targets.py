"""The text of a unit that a mutation changes: the string that was refused, or its lines around the finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sidecar.evaluation import Outcome, Row

LONGEST = 2_000
"""Code points of a text that is mutated as a whole; of a longer one the lines of the finding are."""
Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Part of a string of a unit: of the text of a row, or of the string at `keys` in its body."""

    row: Row
    string: str
    start: int
    end: int
    keys: Keys = ()

    @property
    def is_all(self) -> bool:
        """Whether it is all of the unit."""
        return self.row.body is None and (self.start, self.end) == (0, len(self.string))

    @property
    def text(self) -> str:
        """What is mutated."""
        return self.string[self.start : self.end]

    def changed(self, text: str) -> Row:
        """The unit with another text in this place."""
        string = self.string[: self.start] + text + self.string[self.end :]
        if self.row.body is None:
            return replace(self.row, text=string)
        return replace(self.row, text=string if self.row.text else "", body=_with(self.row.body, self.keys, string))


def target(outcome: Outcome) -> Target | None:
    """The target in a refused unit; None if the refused text is not a string of it, or is too long to tell where."""
    keys = _keys(outcome.verdict.path or "") if outcome.row.body is not None else ()
    string = outcome.row.text if outcome.row.body is None else _at(outcome.row.body, keys)
    if not isinstance(string, str) or not string.strip():
        return None
    span = (0, len(string)) if len(string) <= LONGEST else _span(outcome, string)
    return Target(outcome.row, string, *span, keys) if span else None


def _keys(path: str) -> Keys:
    return tuple(int(part) if part.isdigit() else part for part in path.split("."))


def _at(value: Any, keys: Keys) -> Any:
    for key in keys:
        if isinstance(value, list):
            value = value[key] if isinstance(key, int) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _with(value: Any, keys: Keys, string: str) -> Any:
    """A copy with this string in place of the one at `keys`."""
    if not keys:
        return string
    copy: Any = list(value) if isinstance(value, list) else dict(value)
    copy[keys[0]] = _with(copy[keys[0]], keys[1:], string)
    return copy


def _span(outcome: Outcome, string: str) -> tuple[int, int] | None:
    """The lines of the highest deciding finding; of longer lines `LONGEST` code points around it."""
    verdict = outcome.verdict
    places = [finding for finding in verdict.findings if finding.path == verdict.path and finding.start is not None]
    if not places:
        return None
    place = max(places, key=lambda finding: (finding.decides, finding.score))
    start, end = place.start or 0, place.end or 0
    start, end = string.rfind("\n", 0, start) + 1, _line_end(string, end)
    if end - start > LONGEST:
        middle = ((place.start or 0) + (place.end or 0)) // 2
        start = max(start, middle - LONGEST // 2)
        end = min(end, start + LONGEST)
    return start, end


def _line_end(string: str, offset: int) -> int:
    end = string.find("\n", offset)
    return end if end >= 0 else len(string)
