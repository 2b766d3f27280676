"""The patterns of the shipped policies as they are written, and what a rule makes of a text when one is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import re2
import yaml

from sidecar import policy
from sidecar.detectors.rules import hits
from sidecar.detectors.rules.context import mitigation
from sidecar.detectors.rules.validators import CHECKS
from sidecar.normalization import encodable, normalizations
from sidecar.policy import Rule
from sidecar.policy.rules import expand, re2_options
from tools.regex_tree import Mutation, Node, mutations, parse, paths

Key = tuple[str, int]
"""A source: the name of a word and -1, or a rule's id and the number of its pattern."""


@dataclass(eq=False)
class RuleState:
    """A rule with its sources, its proofs, and which of its patterns meets which of them."""

    rule: Rule
    sources: Sequence[str]
    words_used: Sequence[frozenset[str]]
    lines: list[tuple[str, bool]] = field(default_factory=list)
    _met: list[list[bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Compile."""
        self._patterns = [_compiled(pattern) for pattern in self.rule.patterns]

    def add(self, text: str, *, expected: bool) -> None:
        """Another proof."""
        self.lines.append((text, expected))
        self._met.append([is_met(self.rule, pattern, text) for pattern in self._patterns])

    def judges(self, text: str, mutants: Mapping[int, Any] | None = None) -> bool:
        """Whether the rule, with these patterns instead of its own, meets the text."""
        patterns = (*(mutants or {}).values(), *(p for n, p in enumerate(self._patterns) if n not in (mutants or {})))
        return any(is_met(self.rule, pattern, text) for pattern in patterns)

    def kills(self, mutants: Mapping[int, Any]) -> bool:
        """Whether a proof fails with these patterns instead of its own."""
        for (text, expected), met in zip(self.lines, self._met, strict=True):
            if any(meets for number, meets in enumerate(met) if number not in mutants):
                continue
            if any(is_met(self.rule, pattern, text) for pattern in mutants.values()) is not expected:
                return True
        return False


@dataclass(eq=False)
class PolicyFile:
    """One policy file: its words, its rules with patterns, and their trees."""

    name: str
    words: Mapping[str, str]
    rules: Sequence[RuleState]
    word_trees: Mapping[str, Node]
    trees: Mapping[Key, Node]
    _ways: tuple[Key, Mapping[Node, dict[Node, int | str]]] = (("", -1), {})

    def source(self, key: Key) -> str:
        """The source of a word or a pattern."""
        return self.words[key[0]] if key[1] < 0 else self._rule(key[0]).sources[key[1]]

    def mutations(self) -> Iterable[tuple[Key, Mutation]]:
        """Every mutation of every source: the words first."""
        return ((key, mutation) for key, tree in self.trees.items() for mutation in mutations(tree))

    def hosts(self, key: Key) -> list[RuleState]:
        """The rules that a change of this source touches."""
        if key[1] >= 0:
            return [self._rule(key[0])]
        return [state for state in self.rules if any(key[0] in used for used in state.words_used)]

    def mutants(self, key: Key, mutation: Mutation, host: RuleState) -> dict[int, Any]:
        """The patterns of this rule that the mutation changes, compiled. Raises `ValueError` if RE2 refuses one."""
        mutated = mutation.apply(self.source(key))
        if key[1] >= 0:
            return {key[1]: _mutant(expand(mutated, self.words))}
        words = {**self.words, key[0]: mutated}
        numbers = [number for number, used in enumerate(host.words_used) if key[0] in used]
        return {number: _mutant(expand(host.sources[number], words)) for number in numbers}

    def ways(self, root: Key) -> Mapping[Node, dict[Node, int | str]]:
        """The choices on the way from a pattern to each of its nodes, those of its words included."""
        if self._ways[0] != root:
            self._ways = root, dict(paths(self.trees[root], self.word_trees))
        return self._ways[1]

    def _rule(self, name: str) -> RuleState:
        return next(state for state in self.rules if state.rule.id == name)


def read(folder: Path, only: str = "*.yaml") -> list[PolicyFile]:
    """The files of a folder of policies, with the examples of the rules as proofs."""
    rules = {rule.id: rule for rule in policy.load([folder]).rules if rule.patterns and rule.status != "retired"}
    return [_read_file(path, rules) for path in sorted(folder.glob(only))]


def _read_file(path: Path, rules: Mapping[str, Rule]) -> PolicyFile:
    content = yaml.safe_load(path.read_text("utf-8"))
    words: dict[str, str] = content.get("words", {})
    word_trees = {name: parse(source) for name, source in words.items()}
    states, trees = [], {(name, -1): tree for name, tree in word_trees.items()}
    for entry in content["rules"]:
        if rule := rules.get(entry["id"]):
            own = [parse(source) for source in entry["patterns"]]
            trees |= {(rule.id, number): tree for number, tree in enumerate(own)}
            used = [_words_in(tree, word_trees) for tree in own]
            states.append(state := RuleState(rule, entry["patterns"], used))
            for line, expected in _examples(rule):
                state.add(line, expected=expected)
    return PolicyFile(path.name, words, states, word_trees, trees)


def _examples(rule: Rule) -> list[tuple[str, bool]]:
    return [(line, True) for line in rule.match] + [(line, False) for line in (*rule.no_match, *rule.misses)]


def _words_in(tree: Node, words: Mapping[str, Node]) -> frozenset[str]:
    """The words that a tree refers to, directly or through other words."""
    inside = [_words_in(part, words) for part in tree.parts]
    own = {tree.text, *_words_in(words[tree.text], words)} if tree.kind == "word" else set()
    return frozenset(own).union(*inside)


def is_met(rule: Rule, pattern: Any, text: str) -> bool:
    """Whether the pattern, as one of the rule, has a hit that counts with the full weight of the rule."""
    check = CHECKS[rule.check] if rule.check else None
    for kinds, view in _views(text):
        if rule.views and kinds.isdisjoint(rule.views):
            continue
        for match in pattern.finditer(view) if pattern.search(view) else ():
            start, end = match.span()
            if check is not None and not check(view[start:end]):
                continue
            if rule.status == "test" or not hits.is_context_sensitive(rule):
                return True
            if not mitigation(view, start, end, in_latin=rule.is_in_latin):
                return True
    return False


@lru_cache(maxsize=100_000)
def _views(text: str) -> tuple[tuple[frozenset[str], str], ...]:
    return tuple((view.kinds, view.text) for view in normalizations(encodable(text)))


@lru_cache(maxsize=4_000)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern, re2_options())


@lru_cache(maxsize=64)
def _mutant(pattern: str) -> Any:
    try:
        return re2.compile(pattern, re2_options())
    except re2.error as error:
        raise ValueError(str(error)) from None
