"""Personal data out of a text and back in: every value has one name in a request, such as `<EMAIL_1>`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sidecar.types import Finding

LONGEST = 24
"""Characters of a placeholder."""
_KINDS = {
    "PII-10": "EMAIL",
    "PII-11": "PHONE",
    "PII-20": "CARD",
    "PII-30": "IBAN",
    "PII-31": "WALLET",
    "PII-40": "IP",
    "PII-41": "MAC",
    "PII-50": "BIRTHDATE",
    "PII-60": "ADDRESS",
    "PII-7": "SECRET",
    "PII-8": "ID",
}
_ANY = re.compile(r"<([A-Z]{2,9}_[1-9][0-9]{0,8})>")
_OPEN = re.compile(r"<(?:[A-Z]{1,9}(?:_[0-9]{0,9})?)?$")
_LEAD = re.compile(r"(?:[^\W\d]+[^\w+(]+)+(?=\S*\d)")
_WORDS = frozenset({"SECRET", "ADDRESS", "EMAIL"})


class Span(NamedTuple):
    """A place in a text, and the kind of data there."""

    start: int
    end: int
    kind: str


def kind_of(rule: str) -> str:
    """What kind of data a rule finds; `PII` for rules of the operator's own."""
    return next((kind for begin, kind in _KINDS.items() if rule.startswith(begin)), "PII")


def spans(text: str, findings: Iterable[Finding]) -> list[Span]:
    """The places to replace, from left to right: what overlaps is one place, of the kind that is widest there."""
    ordered = sorted(_span(text, f) for f in findings if f.start is not None and f.end is not None and f.start < f.end)
    merged: list[Span] = []
    for span in ordered:
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
            continue
        last = merged.pop()
        wider = max(last, span, key=lambda s: s.end - s.start)
        merged.append(Span(last.start, max(last.end, span.end), wider.kind))
    return merged


def _span(text: str, finding: Finding) -> Span:
    """Without the words that lead up to a number: the same number shall have the same name wherever it stands."""
    start, end, kind = finding.start or 0, finding.end or 0, kind_of(finding.rule)
    lead = None if kind in _WORDS else _LEAD.match(text[start:end])
    return Span(start + lead.end() if lead else start, end, kind)


class Placeholders:
    """The names given in one request. `taken` is all its text: no name is given that already stands there."""

    def __init__(self, taken: str = "") -> None:
        self._taken = frozenset(_ANY.findall(taken))
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._last: dict[str, int] = {}

    def __len__(self) -> int:
        """How many values have a name."""
        return len(self._names)

    def redact(self, text: str, places: Sequence[Span]) -> str:
        """The text with a name in each of `places`, which do not overlap."""
        parts, done = [], 0
        for start, end, kind in places:
            parts += [text[done:start], f"<{self._name(text[start:end], kind)}>"]
            done = end
        return "".join([*parts, text[done:]])

    def _name(self, value: str, kind: str) -> str:
        name = self._names.get(value)
        while name is None:
            self._last[kind] = self._last.get(kind, 0) + 1
            candidate = f"{kind}_{self._last[kind]}"
            name = None if candidate in self._taken else candidate
        self._names[value], self._values[name] = name, value
        return name

    def found(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and value of every name of ours in a text."""
        hits = ((hit, self._values.get(hit.group(1))) for hit in _ANY.finditer(text))
        return [(hit.start(), hit.end(), value) for hit, value in hits if value is not None]

    def restore(self, text: str, *, json: bool = False) -> str:
        """The text with the values in place of their names, escaped where the text is JSON itself."""
        parts, done = [], 0
        for start, end, value in self.found(text):
            parts += [text[done:start], escaped(value) if json else value]
            done = end
        return "".join([*parts, text[done:]])


def open_from(text: str) -> int | None:
    """Where a placeholder begins that the end of the text cuts off."""
    match = _OPEN.search(text[-LONGEST:])
    return max(0, len(text) - LONGEST) + match.start() if match else None


def escaped(value: str) -> str:
    """The value as it stands between the quotes of a JSON string."""
    return json.dumps(value, ensure_ascii=False)[1:-1]
