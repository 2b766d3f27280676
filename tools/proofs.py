"""Proofs of the shipped patterns: for each mutation of them a text that tells the mutant from the original.

`tests/data/proofs` has a file for each policy file, with `match` and `no_match` lines of each rule, written by `make
proofs`. The texts are yielded by the parse trees of the patterns (`tools.regex_tree`), the shortest first. Texts
that differ from one text in one place are the choices of one line (`tools.choices`). The first choices of a `no_match`
line match, and every other choice breaks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import re2
import yaml

from tools.choices import expand, joined
from tools.pattern_source import Key, PolicyFile, RuleState, read
from tools.regex_tree import Generator, Mutation

HOSTS, TRIES, BASES = 4, 24, 12
"""Patterns that use a word, texts of each that are tried for one mutation, and how many of them match without it."""
SEEDS, CHECKED_SEEDS = 120, 300
"""Texts searched for those that match; a number with a check digit is rare."""
MAX_TEXT = 400
FOLDER = Path(__file__).parent.parent / "tests" / "data" / "proofs"
HEAD = "# Written by `make proofs` from the patterns. tools/proofs.py explains the form.\n"
_TOKEN = re2.compile(r"[A-Za-z0-9_\-]{16,}")
"""What a scanner for secrets may take for one."""


class Proof(NamedTuple):
    """A text of a pattern that a mutant judges unlike the original. `expected`: whether the rule meets it.

    `base`: the text of the pattern that it was made from.
    """

    host: RuleState
    pattern: int
    base: str
    text: str
    expected: bool


def load(folder: Path = FOLDER) -> dict[str, list[tuple[str, bool]]]:
    """The texts of each rule, and whether it must meet them."""
    proofs: dict[str, list[tuple[str, bool]]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for rule, lines in yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader).items():
            proofs[rule] = [(text, True) for line in lines.get("match", ()) for text in expand(line)]
            for line in lines.get("no_match", ()):
                first, *others = expand(line)
                proofs[rule] += [(first, bool(others)), *((text, False) for text in others)]
    return proofs


def distinguishing(file: PolicyFile, key: Key, mutation: Mutation) -> Proof | None:
    """A proof that the mutation breaks, if one is found. Raises `ValueError` if RE2 refuses the mutant."""
    for host, number in _places(file, key):
        mutants = file.mutants(key, mutation, host)
        for base, text in _texts(file, (host.rule.id, number), mutation, _seeds(file, host, number)):
            expected = host.judges(text)
            if host.judges(text, mutants) is not expected:
                return Proof(host, number, base, text, expected)
    return None


def _places(file: PolicyFile, key: Key) -> list[tuple[RuleState, int]]:
    """Rules and the numbers of their patterns in which the source occurs."""
    if key[1] >= 0:
        return [(host, key[1]) for host in file.hosts(key)]
    places = [(host, n) for host in file.hosts(key) for n, used in enumerate(host.words_used) if key[0] in used]
    return places[:HOSTS]


@cache
def _seeds(file: PolicyFile, host: RuleState, number: int) -> Sequence[int]:
    """Seeds with which the pattern yields a text that its rule meets; then others."""
    tree, seeds = file.trees[host.rule.id, number], range(CHECKED_SEEDS if host.rule.check else SEEDS)
    met = (seed for seed in seeds if host.judges(Generator(file.word_trees, {}, seed).text(tree)))
    first = list(islice(met, BASES))
    return [*first, *(seed for seed in seeds if seed not in first)][: len(seeds) if host.rule.check else TRIES]


def _texts(file: PolicyFile, root: Key, mutation: Mutation, seeds: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Texts of this pattern in which the mutated place yields what may make the difference, and the text before."""
    way = file.ways(root).get(mutation.target)
    if way is None:
        return
    for seed in seeds:
        for value in mutation.values:
            text = Generator(file.word_trees, {**way, mutation.target: value}, seed).text(file.trees[root])
            if len(text) <= MAX_TEXT:
                yield Generator(file.word_trees, {}, seed).text(file.trees[root]), text


def write(path: Path, folder: Path = FOLDER) -> None:
    """Make the proofs of one policy file anew; it has none if it has no patterns."""
    file = read(path.parent, only=path.name)[0]
    found: dict[RuleState, dict[str, Proof]] = {state: {} for state in file.rules}
    for key, mutation in file.mutations():
        if mutation.kind == "letter":  # it belongs to an alternative or an optional part that has its text
            continue
        with suppress(ValueError):
            if proof := distinguishing(file, key, mutation):
                found[proof.host].setdefault(proof.text, proof)
    entries = [_entry(state, list(own.values())) for state, own in found.items() if own]
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    target.unlink(missing_ok=True)
    if entries:
        target.write_text(HEAD + "\n" + "\n".join(entries), "utf-8")


def _entry(state: RuleState, found: Sequence[Proof]) -> str:
    """The lines of one rule as YAML."""
    lines = [f"{state.rule.id}:"]
    for kind, expected in (("match", True), ("no_match", False)):
        texts: dict[tuple[int, str], list[str]] = {}
        for proof in found:
            if proof.expected is expected:
                texts.setdefault((proof.pattern, proof.base), []).append(proof.text)
        rendered = [
            line
            for (_, base), own in sorted(texts.items())
            for line in joined(base if state.judges(base) else None, own, expected=expected)
        ]
        lines += [f"  {kind}:", *(f"  - {_quoted(line)}" for line in rendered)] if rendered else []
    return "\n".join(lines) + "\n"


def _quoted(line: str) -> str:
    """A YAML scalar. Invisible characters are escaped, and a character of whatever looks like a secret."""
    escaped = {match.start() + 1 for match in _TOKEN.finditer(line) if re2.search(r"\d", match.group())}
    if not escaped and line.isprintable():
        return "'" + line.replace("'", "''") + "'"
    marks = (
        _escaped(mark) if at in escaped or not mark.isprintable() else f"\\{mark}" if mark in '\\"' else mark
        for at, mark in enumerate(line)
    )
    return f'"{"".join(marks)}"'


def _escaped(mark: str) -> str:
    code = ord(mark)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
