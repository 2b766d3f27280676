"""Replaces personal data by placeholders and restores it: within a request one value has one name, as `<EMAIL_1>`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sidecar.types import Finding

LONGEST = 24
"""Maximum length of a placeholder in characters."""
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
_LEAD = re.compile(r"(?:[^\w+(]|\((?=[^\W\d]))*(?:[^\W\d]+[^\w+(]+)*(?<!\w-)(?<!\b[A-Z][ ])(?=\S*\d)")
"""Words before a number; letters that a hyphen joins to it, and a single one, belong to it."""
_BIRTH_LEAD = re.compile(r"(?i)\D*?(?=\d|\b(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz]))")
_TRAIL = re.compile(r"[ ]?-?[ ]?\(?[^\W\d]+$")
_ADDRESS_LEAD = re.compile(r"(?i)(?:address|lives? at|located at|meet you at|delivered to|sent to)(?: is)?:?\s+")
_LEADS = {
    "PHONE": _LEAD,
    "ID": _LEAD,
    "PII": _LEAD,
    "BIRTHDATE": _BIRTH_LEAD,
    **dict.fromkeys(("SECRET", "ADDRESS", "EMAIL"), _ADDRESS_LEAD),
}
"""The words before a value that its rule reads, too. Values of the other kinds stand alone: nothing of them stays."""


class Span(NamedTuple):
    """A span of a text, and the kind of data in it."""

    start: int
    end: int
    kind: str


def kind_of(rule: str) -> str:
    """The kind of data that a rule detects; `PII` for an operator's own rules."""
    return next((kind for begin, kind in _KINDS.items() if rule.startswith(begin)), "PII")


def spans(text: str, findings: Iterable[Finding]) -> list[Span]:
    """The spans to replace, from left to right; overlapping ones are merged and take the kind of the widest."""
    ordered = sorted(_span(text, f) for f in findings if f.start is not None and f.end is not None and f.start < f.end)
    # Invariant: `merged` is sorted and free of overlaps, so a new span can overlap only the last one.
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
    """The finding's span without the words around a number, so that a number has one name in every context."""
    start, end, kind = finding.start or 0, finding.end or 0, kind_of(finding.rule)
    lead = _LEADS[kind].match(text[start:end]) if kind in _LEADS else None
    start += lead.end() if lead else 0
    value = text[start:end].rstrip()
    if kind == "PHONE":
        value = _TRAIL.sub("", value)
        value = value[:-1] if value.endswith(")") and value.count(")") > value.count("(") else value
    return Span(start, max(start + 1, start + len(value)), kind)


class Placeholders:
    """The placeholder names of one request. Names that occur in `taken`, all its text, are not used."""

    def __init__(self, taken: str = "") -> None:
        self._taken = frozenset(_ANY.findall(taken))
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._last: dict[str, int] = {}

    def __len__(self) -> int:
        """How many values have a name."""
        return len(self._names)

    def redact(self, text: str, places: Sequence[Span]) -> str:
        """The text with a placeholder in each of `places`, which must not overlap."""
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

    def find_all(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and value of every placeholder of this request in a text."""
        hits = ((hit, self._values.get(hit.group(1))) for hit in _ANY.finditer(text))
        return [(hit.start(), hit.end(), value) for hit, value in hits if value is not None]

    def restore(self, text: str, *, json: bool = False) -> str:
        """The text with values in place of placeholders, escaped where the text is itself JSON."""
        parts, done = [], 0
        for start, end, value in self.find_all(text):
            parts += [text[done:start], escaped(value) if json else value]
            done = end
        return "".join([*parts, text[done:]])


def partial_start(text: str) -> int | None:
    """Offset of a placeholder that is cut off by the end of the text; None if there is none."""
    match = _OPEN.search(text[-LONGEST:])
    return max(0, len(text) - LONGEST) + match.start() if match else None


def escaped(value: str) -> str:
    """The value as it is written between the quotes of a JSON string."""
    return json.dumps(value, ensure_ascii=False)[1:-1]
