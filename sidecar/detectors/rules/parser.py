"""A pattern read from left to right: what every text that it meets must hold, and how long that may be.

It has been compiled by RE2, so it is well formed. What comes out are clauses: at least one string of each is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

import re2

from sidecar.detectors.rules.fragments import (
    BETWEEN,
    CODE,
    EMPTY,
    EXACT,
    NAMED,
    Clauses,
    Part,
    Strings,
    joined,
    of_class,
    of_strings,
    times,
)

AHEAD = 40
"""Characters that no escape, quantifier or flag is longer than."""
_COUNTED = re2.compile(r"\{(\d+)(,?)(\d*)\}\??")
_FLAGS = re2.compile(r"\?(?:P?<\w+>|[a-zA-Z-]*:)?")
_BARE_FLAGS = re2.compile(r"\?[a-zA-Z-]+\)")
_SPECIAL = frozenset(("", *"\\[](){}.*+?|^$"))
_REPEATS, _ENDS = frozenset("*+?{"), frozenset(("", "|", ")"))
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
Telling = Callable[[str], bool]
Worth = Callable[[Strings], tuple[int, int]]
_NOTHING, _EDGE = Part(EMPTY), Part(frozenset({BETWEEN}))
_ASSERTIONS = {"b": _EDGE, "A": _EDGE, "z": _EDGE, "B": _NOTHING}


def whole(pattern: str, telling: Telling, worth: Worth) -> Part:
    """The pattern as one part with `clauses` of strings that are `telling`; those that are worth more come first."""
    reader = _Reader(pattern, telling, worth)
    try:
        part = reader.alternatives()
    except (LookupError, re2.error):  # an escape that is not in use: searched everywhere
        return Part(None, (), inf)
    return replace(part, exact=None, clauses=reader.needs(part))


class _Reader:
    """Reads a pattern; it has been compiled, so it is well formed."""

    def __init__(self, pattern: str, telling: Telling, worth: Worth) -> None:
        self._text, self._at = pattern, 0
        self._telling, self._worth = telling, worth
        self._exactly = "(?-i" in pattern

    def needs(self, part: Part) -> Clauses:
        """Its clauses, those that are worth more first."""
        clauses = (*part.clauses, part.exact or EMPTY)
        return tuple(sorted((clause for clause in clauses if all(map(self._telling, clause))), key=self._worth))

    def alternatives(self) -> Part:
        """Up to the closing parenthesis or the end."""
        parts = [self._then()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._then())
        return self._either(parts) if len(parts) > 1 else parts[0]

    def _either(self, parts: Sequence[Part]) -> Part:
        """One of the parts: exact if all are, else the best clauses of all together, the second best, and so on."""
        length, of_word = max(part.length for part in parts), all(part.of_word for part in parts)
        exact = [part.exact for part in parts if part.exact is not None]
        if len(exact) == len(parts):
            return Part(frozenset().union(*exact), (), length, of_word)
        needs = [self.needs(part) for part in parts]
        ranks = range(max(map(len, needs)) if all(needs) else 0)
        best = (frozenset().union(*(of_one[min(rank, len(of_one) - 1)] for of_one in needs)) for rank in ranks)
        return Part(None, tuple(best), length, of_word)

    def _then(self) -> Part:
        """The parts one after the other, up to a bar, a parenthesis or the end."""
        parts = list(self._quantified())
        if len(parts) == 1:
            return parts[0]
        clauses: list[Strings] = []
        running, whole = EMPTY, True
        for part in parts:
            if part.exact is not None and len(running) * len(part.exact) <= EXACT:
                running = joined([running, part.exact])
                continue
            clauses += (*self.needs(Part(running)), *part.clauses)
            running, whole = part.exact or EMPTY, False
        length = sum(part.length for part in parts)
        return Part(running, (), length) if whole else Part(None, (*clauses, *self.needs(Part(running))), length)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _met(self, pattern: re2._Regexp, first: str) -> re2._Match | None:
        """Read what the pattern meets here; it begins with one of the characters of `first`."""
        if self._next() not in first:
            return None
        found = pattern.match(self._text[self._at : self._at + AHEAD])
        self._at += found.end() if found else 0
        return found

    def _quantified(self) -> Iterator[Part]:
        while self._next() not in _ENDS:
            part = self._one()
            while (mark := self._next()) in _REPEATS:
                if mark != "{":
                    self._at += 1 + (self._text[self._at + 1 : self._at + 2] == "?")
                    part = times(part, mark == "+", 1 if mark == "?" else inf)
                elif found := self._met(_COUNTED, "{"):
                    least, comma, most = found.groups()
                    part = times(part, int(least), int(most) if most else inf if comma else int(least))
                else:
                    break
            yield part

    def _one(self) -> Part:
        if (literal := self._literal() or self._character()) is not None:
            return of_strings(frozenset({literal}))
        if found := self._met(NAMED, "\\"):
            return self._kind(found.group())
        mark = self._next()
        self._at += 1
        if mark == "(":
            return self._group()
        if mark == "[":
            return self._kind(self._inside())
        if mark == "\\":
            self._at += 1
            return _ASSERTIONS[self._text[self._at - 1]]
        return Part(None, (), 1) if mark == "." else _NOTHING

    def _kind(self, inner: str) -> Part:
        """A class; where case counts in places, the two letters beyond ASCII may be what is not a letter."""
        part = of_class(inner)
        doubtful = self._exactly and (inner.startswith("^") or "\\W" in inner or "\\P" in inner)
        return Part(None, (), 1) if doubtful else part

    def _literal(self) -> str:
        """Characters in a row that stand for themselves, without the last if that is repeated."""
        end = self._at
        while self._text[end : end + 1] not in _SPECIAL:
            end += 1
        if end - self._at > 1 and self._text[end : end + 1] in _REPEATS:
            end -= 1
        literal, self._at = self._text[self._at : end], end
        return literal

    def _character(self) -> str | None:
        """One character that stands for itself; None, and nothing read, for anything else."""
        if self._text.startswith("\\x", self._at) and (found := self._met(CODE, "\\")):
            return chr(int(found.group(1) or found.group(2), 16))
        mark = self._next()
        if mark != "\\":
            self._at += mark not in "([.^$"
            return None if mark in "([.^$" else mark
        escaped = self._text[self._at + 1]
        if escaped.isalnum() and escaped not in _CONTROL:
            return None
        self._at += 2
        return _CONTROL.get(escaped, escaped)

    def _group(self) -> Part:
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._met(_BARE_FLAGS, "?"):
            return _NOTHING
        else:
            self._met(_FLAGS, "?")
        inside = self.alternatives()
        self._at += 1
        return inside

    def _inside(self) -> str:
        """What stands between the brackets of a class."""
        begun = self._at
        self._at += self._next() == "^"
        self._at += self._next() == "]"
        while self._next() != "]":
            if not self._met(NAMED, "\\[") and not self._met(CODE, "\\"):
                self._at += 1 + (self._next() == "\\")
        self._at += 1
        return self._text[begun : self._at - 1]
