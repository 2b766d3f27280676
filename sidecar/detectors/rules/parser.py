"""Regex parser: derives the required literals of a pattern and the maximum length of its match.

Patterns have been compiled by RE2, so they are well formed. The result is a list of clauses.

Invariant: every text that the pattern matches contains at least one string of each clause, and syntax that is not
understood yields no clause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

import re2

from sidecar.detectors.rules.fragments import (
    CODE_POINT,
    EMPTY,
    MAX_EXACT,
    NAMED_CLASS,
    SEPARATOR,
    Clauses,
    Fragment,
    Strings,
    concatenated,
    from_class,
    from_strings,
    repeated,
)

MAX_TOKEN = 40
"""Maximum characters of an escape, quantifier or flag."""
_COUNTED_REPEAT = re.compile(r"\{(\d+)(,?)(\d*)\}\??", re.ASCII)
_GROUP_PREFIX = re.compile(r"\?(?:P?<\w+>|[a-zA-Z-]*:)?", re.ASCII)
_FLAGS_GROUP = re.compile(r"\?[a-zA-Z-]+\)")
_PLAIN_RUN = re.compile(r"[^\\\[\](){}.*+?|^$]+")
_QUANTIFIERS, _SEQUENCE_ENDS = frozenset("*+?{"), frozenset(("", "|", ")"))
_CONTROL_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
IsSelective = Callable[[str], bool]
Cost = Callable[[Strings], tuple[int, int]]
_EMPTY_FRAGMENT, _BOUNDARY = Fragment(EMPTY), Fragment(frozenset({SEPARATOR}))
_ASSERTIONS = {"b": _BOUNDARY, "A": _BOUNDARY, "z": _BOUNDARY, "B": _EMPTY_FRAGMENT}
MIN_SHARED, GROUP_KEY = 24, 24
"""Characters from which a group is remembered, and by which it is looked up."""
_groups: dict[tuple[IsSelective, Cost, bool, str], dict[str, Fragment]] = {}
"""Groups that have been read, with their closing parenthesis: patterns share the alternations of `words`."""


def clear_groups() -> None:
    """Forget the groups of the patterns read so far."""
    _groups.clear()


def parse(pattern: str, is_selective: IsSelective, cost: Cost) -> Fragment:
    """The pattern as one fragment with `clauses` of selective strings; the most selective clauses first."""
    parser = _Parser(pattern, is_selective, cost)
    try:
        fragment = parser.alternatives()
    except (LookupError, re2.error):  # an unsupported escape: the pattern is always searched
        return Fragment(None, (), inf)
    return replace(fragment, exact=None, clauses=parser.clauses_of(fragment))


class _Parser:
    """Recursive-descent parser of a well-formed pattern."""

    def __init__(self, pattern: str, is_selective: IsSelective, cost: Cost) -> None:
        self._text, self._position = pattern, 0
        self._is_selective, self._cost = is_selective, cost
        self._case_sensitive = "(?-i" in pattern

    def clauses_of(self, fragment: Fragment) -> Clauses:
        """Its clauses, most selective first."""
        clauses = (*fragment.clauses, fragment.exact or EMPTY)
        return tuple(sorted((clause for clause in clauses if all(map(self._is_selective, clause))), key=self._cost))

    def alternatives(self) -> Fragment:
        """An alternation, up to the closing parenthesis or the end."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._sequence())
        return self._alternation(branches) if len(branches) > 1 else branches[0]

    def _alternation(self, branches: Sequence[Fragment]) -> Fragment:
        """One of the branches: exact if all are, else the union of their best clauses, their second best, and so on."""
        max_letters, is_word_character = (
            max(branch.max_letters for branch in branches),
            all(branch.is_word_character for branch in branches),
        )
        exact = [branch.exact for branch in branches if branch.exact is not None]
        if len(exact) == len(branches):
            return Fragment(frozenset().union(*exact), (), max_letters, is_word_character)
        branch_clauses = [self.clauses_of(branch) for branch in branches]
        ranks = range(max(map(len, branch_clauses)) if all(branch_clauses) else 0)
        best = (
            frozenset().union(*(clauses[min(rank, len(clauses) - 1)] for clauses in branch_clauses)) for rank in ranks
        )
        return Fragment(None, tuple(best), max_letters, is_word_character)

    def _sequence(self) -> Fragment:
        """A sequence of fragments, up to a bar, a parenthesis or the end."""
        fragments = list(self._quantified_atoms())
        if len(fragments) == 1:
            return fragments[0]
        clauses: list[Strings] = []
        pending, is_exact = EMPTY, True
        for fragment in fragments:
            if fragment.exact is not None and len(pending) * len(fragment.exact) <= MAX_EXACT:
                pending = concatenated([pending, fragment.exact])
                continue
            clauses += (*self.clauses_of(Fragment(pending)), *fragment.clauses)
            pending, is_exact = fragment.exact or EMPTY, False
        max_letters = sum(fragment.max_letters for fragment in fragments)
        return (
            Fragment(pending, (), max_letters)
            if is_exact
            else Fragment(None, (*clauses, *self.clauses_of(Fragment(pending))), max_letters)
        )

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _accept(self, pattern: re.Pattern[str], first: str) -> re.Match[str] | None:
        """Consume what the pattern matches here; the match begins with one of the characters of `first`."""
        if self._peek() not in first:
            return None
        match = pattern.match(self._text, self._position, self._position + MAX_TOKEN)
        self._position = match.end() if match else self._position
        return match

    def _quantified_atoms(self) -> Iterator[Fragment]:
        while self._peek() not in _SEQUENCE_ENDS:
            fragment = self._atom()
            while (mark := self._peek()) in _QUANTIFIERS:
                if mark != "{":
                    self._position += 1 + (self._text[self._position + 1 : self._position + 2] == "?")
                    fragment = repeated(fragment, mark == "+", 1 if mark == "?" else inf)
                elif match := self._accept(_COUNTED_REPEAT, "{"):
                    minimum, comma, maximum = match.groups()
                    fragment = repeated(
                        fragment, int(minimum), int(maximum) if maximum else inf if comma else int(minimum)
                    )
                else:
                    break
            yield fragment

    def _atom(self) -> Fragment:
        if (literal := self._literal() or self._character()) is not None:
            return from_strings(frozenset({literal}))
        if match := self._accept(NAMED_CLASS, "\\"):
            return self._character_class(match.group())
        mark = self._peek()
        self._position += 1
        if mark == "(":
            return self._group()
        if mark == "[":
            return self._character_class(self._class_body())
        if mark == "\\":
            self._position += 1
            return _ASSERTIONS[self._text[self._position - 1]]
        return Fragment(None, (), 1) if mark == "." else _EMPTY_FRAGMENT

    def _character_class(self, inner: str) -> Fragment:
        """A class; in case-sensitive patterns the two case variants may match as non-letters."""
        fragment = from_class(inner)
        doubtful = self._case_sensitive and (inner.startswith("^") or "\\W" in inner or "\\P" in inner)
        return Fragment(None, (), 1) if doubtful else fragment

    def _literal(self) -> str:
        """A run of literal characters, without the last if a quantifier follows."""
        run = _PLAIN_RUN.match(self._text, self._position)
        end = run.end() if run else self._position
        if end - self._position > 1 and self._text[end : end + 1] in _QUANTIFIERS:
            end -= 1
        literal, self._position = self._text[self._position : end], end
        return literal

    def _character(self) -> str | None:
        """One literal character; None, and nothing consumed, for anything else."""
        if self._text.startswith("\\x", self._position) and (match := self._accept(CODE_POINT, "\\")):
            return chr(int(match.group(1) or match.group(2), 16))
        mark = self._peek()
        if mark != "\\":
            self._position += mark not in "([.^$"
            return None if mark in "([.^$" else mark
        escaped = self._text[self._position + 1]
        if escaped.isalnum() and escaped not in _CONTROL_ESCAPES:
            return None
        self._position += 2
        return _CONTROL_ESCAPES.get(escaped, escaped)

    def _group(self) -> Fragment:
        if self._text.startswith("?:", self._position):
            self._position += 2
            return self._shared_group()
        if self._accept(_FLAGS_GROUP, "?"):
            return _EMPTY_FRAGMENT
        self._accept(_GROUP_PREFIX, "?")
        inside = self.alternatives()
        self._position += 1
        return inside

    def _shared_group(self) -> Fragment:
        """The inside of a group; what begins with one that has been read, to its parenthesis, is read the same way."""
        start = self._position
        beginning = self._text[start : start + GROUP_KEY]
        known = _groups.setdefault((self._is_selective, self._cost, self._case_sensitive, beginning), {})
        for text, fragment in list(known.items()):  # another thread may be adding groups
            if self._text.startswith(text, start):
                self._position += len(text)
                return fragment
        inside = self.alternatives()
        self._position += 1
        if self._position - start >= MIN_SHARED:
            known[self._text[start : self._position]] = inside
        return inside

    def _class_body(self) -> str:
        """The text between the brackets of a class."""
        start = self._position
        self._position += self._peek() == "^"
        self._position += self._peek() == "]"
        while self._peek() != "]":
            if not self._accept(NAMED_CLASS, "\\[") and not self._accept(CODE_POINT, "\\"):
                self._position += 1 + (self._peek() == "\\")
        self._position += 1
        return self._text[start : self._position - 1]
