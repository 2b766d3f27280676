"""Parse tree of a policy's patterns, in RE2's syntax with `{name}` for words: texts that it yields, and mutations.

A mutation is an edit of the source, as a typing error would be: it drops an alternative, changes a quantifier, removes
a word boundary, drops a member of a class, or drops a letter. For each there is a `Choice` of branches and counts with
which the tree yields a text that the pattern and its mutant may judge differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import re2

FILLER = "one"
_TOKEN = re2.compile(
    r"\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\[pP]\{\^?\w+\}|\\[pP]\w|\\."
    r"|\(\?[a-zA-Z-]+\)|\(\?(?:P?<\w+>|[a-zA-Z-]*:)|\{[a-z_]+\}|\[\^?\]?(?:\[:\^?\w+:\]|\\x\{[0-9a-fA-F]+\}|\\.|[^\]\\])*\]|(?s:.)"
)
_QUANTIFIER = re2.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})\??")
_MEMBER = re2.compile(
    r"(?:\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\[^pPwWdDsSx]|[^\\\[])(?:-(?:\\x\{[0-9a-fA-F]+\}|\\.|[^\]\\]))?"
    r"|\[:\^?\w+:\]|\\[pP](?:\{\^?\w+\}|\w)|\\.|\["
)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ALPHABET = "etaoinsrlx EAX019-_.,:/=+'\"`<>(){}[]|!?@#$%&*;~^\\\n\t"
_LAST = 0x10FFFF


@dataclass(eq=False)
class Node:
    """A part of a pattern: `kind` is `any of`, `all of`, `repeat`, `class`, `letter`, `anchor`, `word` or `nothing`."""

    kind: str
    start: int
    end: int
    text: str = ""
    parts: list[Node] = field(default_factory=list)
    least: int = 1
    most: int | None = 1


@dataclass(frozen=True)
class Mutation:
    """`source[start:end]` replaced. A text in which `target` yields one of `values` may show the difference."""

    kind: str
    start: int
    end: int
    replacement: str
    target: Node
    values: tuple[int | str, ...] = ()

    def apply(self, source: str) -> str:
        """The mutated source."""
        return source[: self.start] + self.replacement + source[self.end :]


def parse(source: str) -> Node:
    """The tree of a well-formed pattern."""
    return _Parser(source).alternatives()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0

    def alternatives(self) -> Node:
        start, branches = self._at, [self._sequence()]
        while self._source[self._at : self._at + 1] == "|":
            self._at += 1
            branches.append(self._sequence())
        return Node("any of", start, self._at, parts=branches) if len(branches) > 1 else branches[0]

    def _sequence(self) -> Node:
        start, parts = self._at, []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            parts.append(self._quantified())
        return Node("all of", start, self._at, parts=parts)

    def _quantified(self) -> Node:
        start, node = self._at, self._atom()
        while match := _QUANTIFIER.match(self._source[self._at : self._at + 12]):
            self._at += match.end()
            mark, low, comma, high = match.groups()
            least = int(low) if low else int(mark == "+")
            most = 1 if mark == "?" else None if mark else int(high) if high else None if comma else least
            node = Node("repeat", start, self._at, match.group(), [node], least, most)
        return node

    def _atom(self) -> Node:
        start = self._at
        token = _TOKEN.match(self._source[start : start + 4000]).group()
        self._at += len(token)
        if token[0] == "(" and token[-1:] != ")":
            inside = self.alternatives()
            self._at += 1
            return Node("all of", start, self._at, parts=[inside])
        kind, text = _classified(token)
        return Node(kind, start, self._at, text)


def _classified(token: str) -> tuple[str, str]:
    if token[0] == "(":
        return "nothing", ""
    if token[0] == "{" and len(token) > 1:
        return "word", token[1:-1]
    if token in {"^", "$", r"\b", r"\B", r"\A", r"\z"}:
        return "anchor", token
    if token == "." or (token[0] == "[" and len(token) > 1) or token[:2] in {rf"\{name}" for name in "dDsSwWpP"}:
        return "class", token
    if token[:2] == r"\x":
        return "letter", chr(int(token[2:].strip("{}"), 16))
    return "letter", _CONTROL.get(token[1], token[1]) if token[0] == "\\" else token


@cache
def members(text: str) -> str:
    """Characters that the class accepts: of a small alphabet, and the ends of its ranges."""
    accepted = re2.compile(text)
    inside = [int(code, 16) for code in re2.findall(r"\\x\{?([0-9a-fA-F]+)", text)]
    codes = [ord(mark) for mark in _ALPHABET + text] + inside + [code + 1 for code in inside if code < _LAST]
    codes += [0xE9, 0x3B1, 0x431, 0x5D0, 0x628, 0x915, 0xE01, 0x3042, 0x30A2, 0x4E2D, 0xAC00, 0x200B, 0xAD, 0x301]
    marks = dict.fromkeys(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
    return "".join(mark for mark in marks if accepted.fullmatch(mark))


@cache
def preferred(text: str) -> str:
    """Of the characters that a class accepts those that a reader takes in most easily."""
    accepted = members(text) or " "
    plain = "".join(mark for mark in accepted if mark.isascii() and mark.isalnum())
    return " " if " " in accepted and "e" not in accepted else plain or accepted


class Generator:
    """Yields texts of a tree. `choices`: what some nodes yield; the seed decides for the others, each by itself.

    With seed 0 each yields its first alternative and its least count.
    """

    def __init__(self, words: Mapping[str, Node], choices: Mapping[Node, int | str], seed: int) -> None:
        self._words, self._choices, self._seed = words, choices, seed

    def text(self, node: Node) -> str:
        """What this node yields."""
        choice = self._choices.get(node)
        if node.kind == "any of":
            branch = choice if isinstance(choice, int) else self._pick(node, len(node.parts))
            return self.text(node.parts[branch])
        if node.kind == "repeat":
            return self._repeated(node, choice)
        if node.kind == "word":
            return self.text(self._words[node.text])
        if isinstance(choice, str):
            return choice
        if node.kind == "class":
            return self._member(node, 0)
        return node.text if node.kind == "letter" else "".join(map(self.text, node.parts))

    def _pick(self, node: Node, among: int) -> int:
        """The seed's number for this node, below `among`."""
        return (self._seed * (node.start + node.end + 1) * 2_654_435_761 >> 7) % among

    def _repeated(self, node: Node, choice: int | str | None) -> str:
        inner, most = node.parts[0], 999 if node.most is None else node.most
        if inner.kind != "class" or inner in self._choices:
            least = node.least + self._pick(node, min(most - node.least, 2) + 1)
            return "".join(self.text(inner) for _ in range(choice if isinstance(choice, int) else least))
        accepted = members(inner.text)
        if choice is None and {" ", "e"} <= set(accepted) and node.least == 0 and most > 1:
            return " "
        if choice is None and set(FILLER) <= set(accepted) and 0 < node.least < len(FILLER) <= most:
            return FILLER
        count = choice if isinstance(choice, int) else node.least
        letters = "".join(self._member(inner, n) for n in range(count))
        return f" {letters[1:-1]} " if " " in accepted and "e" in accepted and count > 2 else letters

    def _member(self, node: Node, position: int) -> str:
        accepted = preferred(node.text)
        mixed = (self._seed + 1) * 2_654_435_761 + node.start * 40_503 + position * 1_000_003
        return accepted[(mixed ^ mixed >> 15) % len(accepted)]


def mutations(node: Node) -> Iterator[Mutation]:
    """All mutations of this tree (words are trees of their own)."""
    if node.kind == "any of":
        yield from _alternatives(node)
    elif node.kind == "repeat":
        yield from _quantifiers(node)
    elif node.kind == "anchor":
        yield Mutation("boundary", node.start, node.end, "", node, ("x", "s", "1", " "))
    elif node.kind == "class" and node.text[0] == "[":
        yield from _members(node)
    elif node.kind == "letter" and node.text.isalnum():
        yield Mutation("letter", node.start, node.end, "", node, (node.text,))
    for part in node.parts:
        yield from mutations(part)


def _alternatives(node: Node) -> Iterator[Mutation]:
    for index, branch in enumerate(node.parts):
        first, last = (branch.start - 1, branch.end) if index else (branch.start, branch.end + 1)
        yield Mutation("alternative", first, last, "", node, (index,))


def _quantifiers(node: Node) -> Iterator[Mutation]:
    inner = node.parts[0]
    low, high = node.least, node.most

    def change(kind: str, least: int, most: int | None, value: int) -> Mutation:
        text = f"{{{least},{'' if most is None else most}}}"
        text = {"{0,1}": "?", "{0,}": "*", "{1,}": "+", "{1,1}": ""}.get(text, text)
        return Mutation(kind, inner.end, node.end, text, node, (value,))

    if low == 0:
        yield Mutation("optional", node.start, node.end, "", node, (1,))
        yield change("optional", 1, high, 0)
    else:
        yield change("bound", low - 1, high, low - 1)
    if low and (high is None or high > low):
        yield change("bound", low + 1, high, low)
    if high is not None and high > 1:
        yield change("bound", low, high + 1, high + 1)
        if high > max(low, 1):
            yield change("bound", low, high - 1, high)


def _members(node: Node) -> Iterator[Mutation]:
    body_start = 2 if node.text[1] == "^" else 1
    found = list(_MEMBER.finditer(node.text[:-1], body_start))
    for match in found if len(found) > 1 else ():
        start, end = node.start + match.start(), node.start + match.end()
        member = members(f"[{match.group()}]")
        rest = node.text[: match.start()] + node.text[match.end() :]
        only = [mark for mark in member if (mark in members(rest)) != (mark in members(node.text))]
        if only:
            yield Mutation("class", start, end, "", node, tuple(only[:3]))


def paths(root: Node, words: Mapping[str, Node]) -> Iterator[tuple[Node, dict[Node, int | str]]]:
    """Every node below the root, words entered, with the choices on the way to it. Each node once."""
    seen: set[Node] = set()
    waiting: list[tuple[Node, dict[Node, int | str]]] = [(root, {})]
    while waiting:
        node, way = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node, way
        if node.kind == "word":
            waiting.append((words[node.text], way))
        for index, part in enumerate(node.parts):
            step = {"any of": {node: index}, "repeat": {node: max(1, node.least)}}.get(node.kind, {})
            waiting.append((part, {**way, **step}))
