"""Which literal strings a pattern cannot do without, read off the pattern itself.

A text without them needs no automaton. What comes out is a list of clauses: of each clause at least one string
is part of every text that the pattern meets, case folded on both sides; `WIDE` stands for any character beyond
ASCII, and `DIGIT`, so many times in a row, for as many ASCII digits in a row. It errs on the side of searching:
what is not understood makes no clause, and a pattern without clauses is always searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from string import digits

import re2

Strings = frozenset[str]
Clauses = tuple[Strings, ...]

DIGIT, WIDE = "\ufdd0", "\ufdd1"
"""Strings that no text holds, in clauses for digits and for a character beyond ASCII."""
DIGITS = 12
"""Digits in a row that a clause tells apart: years and prices are short, and numbers of people and cards are not."""
EXACT = 64
"""Strings that a stretch of a pattern may stand for; more, and it is cut in two."""
CLASS = 8
"""Characters of a class that are taken one by one."""
KEPT, WORD = 4, 3
"""Clauses of a pattern beside the best, and bytes that each of their strings has at least: more, or shorter ones,
cost more than the texts they turn away."""
AHEAD = 40
"""Characters that no escape, quantifier or flag is longer than."""
_RARE = "@:=[<{$%&*+#|"
_EMPTY: Strings = frozenset({""})
_COUNTED = re2.compile(r"\{(\d+)(?:,\d*)?\}\??")
_FLAGS = re2.compile(r"\?(?:P?<\w+>|[a-zA-Z-]*:)?")
_BARE_FLAGS = re2.compile(r"\?[a-zA-Z-]+\)")
_NAMED = re2.compile(r"\[:\^?\w+:\]|\\[pP](?:\{[^}]*\}|.)|\\[wWDsSC]")
_DIGITS = re2.compile(r"\\d")
_CODE = re2.compile(r"\\x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_SPECIAL = frozenset(("", *"\\[](){}.*+?|^$"))
_REPEATS, _ENDS = frozenset("*+?{"), frozenset(("", "|", ")"))
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


@dataclass(frozen=True, slots=True)
class _Part:
    """What a part of a pattern stands for exactly, if that is few strings, or what it needs otherwise."""

    exact: Strings | None
    clauses: Clauses = ()

    def needs(self) -> Clauses:
        if self.exact and all(map(_telling, self.exact)):
            return (*self.clauses, self.exact)
        return self.clauses


_ANYTHING = _Part(None)
_A_DIGIT, _A_WIDE = _Part(None, (frozenset({DIGIT}),)), _Part(None, (frozenset({WIDE}),))


@lru_cache(maxsize=4096)  # a reload reads the same patterns again, but for a few
def clauses(pattern: str) -> Clauses:
    """The clauses of an RE2 pattern, those that turn away most first."""
    folded = {frozenset(map(str.casefold, clause)) for clause in _Reader(pattern).alternatives().needs()}
    ranked = sorted(folded, key=lambda clause: (*_worth(clause), sorted(clause)))
    return tuple(clause for rank, clause in enumerate(ranked) if not rank or -_worth(clause)[0] >= WORD)[:KEPT]


def _telling(string: str) -> bool:
    """Single letters and common signs are in every text; a single Chinese character is a word."""
    return len(string.encode()) > 1 or (bool(string) and string in _RARE)


def _worth(clause: Strings) -> tuple[int, int]:
    return -min(len(string.encode()) for string in clause), len(clause)


def _either(parts: Sequence[_Part]) -> _Part:
    """One of the parts: exact if all are, else the best clauses of all together, the second best, and so on."""
    exact = [part.exact for part in parts if part.exact is not None]
    if len(exact) == len(parts):
        return _Part(frozenset().union(*exact))
    needs = [sorted(part.needs(), key=_worth) for part in parts]
    if not all(needs):
        return _ANYTHING
    ranks = range(max(map(len, needs)))
    return _Part(
        None, tuple(frozenset().union(*(of_one[min(rank, len(of_one) - 1)] for of_one in needs)) for rank in ranks)
    )


def _then(parts: Iterator[_Part]) -> _Part:
    """The parts one after the other."""
    needs: list[Strings] = []
    running, whole = _EMPTY, True
    for part in parts:
        needs += part.clauses
        if part.exact is not None and len(running) * len(part.exact) <= EXACT:
            running = frozenset(map("".join, product(running, part.exact)))
            continue
        whole = False
        needs += _Part(running).needs()
        running = part.exact or _EMPTY
    return _Part(running) if whole else _Part(None, (*needs, *_Part(running).needs()))


def _times(part: _Part, quantifier: str, least: str | None) -> _Part:
    if quantifier.startswith("?"):
        return _ANYTHING if part.exact is None else _Part(part.exact | _EMPTY)
    if quantifier.startswith("*") or (least is not None and not int(least)):
        return _ANYTHING
    if part is _A_DIGIT and least is not None:
        return _Part(None, (frozenset({DIGIT * min(int(least), DIGITS)}),))
    return _Part(None, part.needs())


class _Reader:
    """Reads a pattern from left to right; it has been compiled, so it is well formed."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def alternatives(self) -> _Part:
        """Up to the closing parenthesis or the end."""
        parts = [_then(self._quantified())]
        while self._next() == "|":
            self._at += 1
            parts.append(_then(self._quantified()))
        return _either(parts)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _met(self, pattern: re2._Regexp, first: str = "\\[") -> re2._Match | None:
        """Read what the pattern meets here; it begins with one of the characters of `first`."""
        if self._next() not in first:
            return None
        found = pattern.match(self._text[self._at : self._at + AHEAD])
        self._at += found.end() if found else 0
        return found

    def _quantified(self) -> Iterator[_Part]:
        while self._next() not in _ENDS:
            part = self._one()
            while (mark := self._next()) in _REPEATS:
                if mark != "{":
                    self._at += 1 + (self._text[self._at + 1 : self._at + 2] == "?")
                    part = _times(part, mark, None)
                elif found := self._met(_COUNTED, "{"):
                    part = _times(part, mark, found.group(1))
                else:
                    break
            yield part

    def _one(self) -> _Part:
        if (literal := self._literal() or self._character()) is not None:
            return _Part(frozenset({literal}))
        if self._met(_NAMED, "\\"):
            return _ANYTHING
        if self._met(_DIGITS, "\\"):
            return _A_DIGIT
        mark = self._next()
        self._at += 1
        if mark == "(":
            return self._group()
        if mark == "[":
            return self._class()
        if mark == "\\":
            self._at += 1  # an assertion; digits and other letters are not in use
        return _ANYTHING if mark == "." else _Part(_EMPTY)

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
        if self._text.startswith("\\x", self._at) and (found := self._met(_CODE)):
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

    def _group(self) -> _Part:
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._met(_BARE_FLAGS, "?"):
            return _Part(_EMPTY)
        else:
            self._met(_FLAGS, "?")
        inside = self.alternatives()
        self._at += 1
        return inside

    def _class(self) -> _Part:
        """Few characters as themselves, digits and characters beyond ASCII by their kind, the rest as anything."""
        negated, letters, named = self._next() == "^", list[str](), False
        self._at += negated
        while not letters or self._next() != "]":
            if self._met(_NAMED):
                named = True
                letters.append("")
            elif self._met(_DIGITS):
                letters += "0-9"
            else:
                letters.append(self._member())
        self._at += 1
        return _ANYTHING if negated or named else _of(letters)

    def _member(self) -> str:
        if (letter := self._character()) is None:
            letter = self._next()
            self._at += 1
        return letter


def _of(letters: Sequence[str]) -> _Part:
    """A class of these members, the hyphens of ranges among them."""
    bare = {letter for letter in letters if letter != "-"}
    if bare and all(letter in digits for letter in bare):
        return _A_DIGIT
    if bare and not any(letter.isascii() for letter in bare):
        return _A_WIDE
    return _Part(frozenset(bare)) if "-" not in letters and len(bare) <= CLASS else _ANYTHING
