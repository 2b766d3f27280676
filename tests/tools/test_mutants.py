"""The proofs of the shipped patterns: they hold, they kill mutants, and the tools that make them."""

from __future__ import annotations

from pathlib import Path

import pytest
import re2

from sidecar.policy import shipped_folder
from tools import proofs
from tools.choices import expand, joined
from tools.mutants import ALIKE, KILLED, KINDS, SURVIVED, fate, load, sample
from tools.pattern_source import PolicyFile, read
from tools.regex_tree import Generator, mutations, parse

POLICY = r"""
family: jailbreak
words:
  fruit: 'banana|apple|cherr(?:y|ies)'
rules:
  - id: T-1
    title: A test
    score: 0.9
    languages: [en]
    patterns: ['\b(?:eat|peel) (?:the )?(?:\w+ ){0,2}(?:{fruit})\b', '\b[tc]ea+\b']
    match: [Now eat the apple., A cea.]
    no_match: [Do not eat pears.]
"""
OF_ALL, OF_DIFFERENT = 0.8, 0.95
"""Shares of all mutants, and of those for which a text is known that tells them from the original."""


@pytest.fixture(scope="module")
def shipped() -> list[PolicyFile]:
    """The shipped policies with their proofs."""
    return load(shipped_folder())


@pytest.fixture
def small(tmp_path: Path) -> PolicyFile:
    """A policy of one rule."""
    (tmp_path / "small.yaml").write_text(POLICY)
    return read(tmp_path)[0]


def test_every_proof_holds(shipped: list[PolicyFile]) -> None:
    """Each rule meets its `match` texts and none of the others."""
    wrong = [
        (state.rule.id, text)
        for file in shipped
        for state in file.rules
        for text, expected in state.lines
        if state.judges(text) is not expected
    ]
    assert wrong == []


@pytest.mark.slow
def test_the_proofs_kill_nearly_every_mutant(shipped: list[PolicyFile]) -> None:
    """Of a sample of each kind; `make mutants` measures more."""
    fates = [fate(*item) for item in sample(shipped, 300, seed=7)]
    assert fates.count(KILLED) >= OF_ALL * len(fates)
    assert fates.count(KILLED) >= OF_DIFFERENT * (len(fates) - fates.count(ALIKE))


def test_mutants_of_every_kind_are_made_and_told_from_the_original(small: PolicyFile) -> None:
    """A proof that is written for a mutant kills it, and few survive without one."""
    found = {mutation.kind: (key, mutation) for key, mutation in small.mutations()}
    assert set(found) == set(KINDS)
    survivors = [(key, mutation) for key, mutation in small.mutations() if fate(small, key, mutation) == SURVIVED]
    assert survivors
    for key, mutation in survivors:
        proof = proofs.distinguishing(small, key, mutation)
        assert proof is not None
        proof.host.add(proof.text, expected=proof.expected)
        assert fate(small, key, mutation) == KILLED


def test_a_mutant_that_no_text_tells_apart_is_alike(tmp_path: Path) -> None:
    """An optional part at the end of a pattern changes nothing."""
    (tmp_path / "small.yaml").write_text(POLICY.replace(r"[tc]ea+\b'", r"tea(?:pot)?'").replace("A cea", "A tea"))
    (file,) = read(tmp_path)
    optional = [item for item in file.mutations() if item[0] == ("T-1", 1) and item[1].kind == "optional"]
    assert [fate(file, *item) for item in optional] == [ALIKE, KILLED]


def test_written_proofs_are_read_back(small: PolicyFile, tmp_path: Path) -> None:
    """They hold, and with them nothing survives."""
    folder = tmp_path / "proofs"
    proofs.write(tmp_path / "small.yaml", folder)
    state = small.rules[0]
    for text, expected in proofs.load(folder)["T-1"]:
        assert state.judges(text) is expected
        state.add(text, expected=expected)
    fates = [fate(small, key, mutation) for key, mutation in small.mutations()]
    assert SURVIVED not in fates
    assert fates.count(KILLED) > fates.count(ALIKE)


def test_a_line_with_choices_stands_for_one_text_each() -> None:
    """Of each place one after the other, not of all combinations."""
    assert list(expand("[[a|b]] x [[c|d|]]")) == ["a x c", "b x c", "a x d", "a x "]
    assert list(expand("plain | text")) == ["plain | text"]


def test_texts_that_differ_in_one_place_are_joined() -> None:
    """The others stand alone, and what cannot be written as a line is left out."""
    texts = ["eat the pear", "peel the apple", "a quite different sentence of other words", "eat [[the|a]] apple"]
    lines = list(joined("eat the apple", texts[:3], expected=True))
    assert lines == ["[[eat|peel]] the [[apple|pear]]", texts[2]]
    assert {text for line in lines for text in expand(line)} == {"eat the apple", *texts[:3]}
    assert list(joined(None, texts[3:], expected=True)) == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?-i)\bAKIA[A-Z2-7]{16}\b",
        r"[[:punct:]\]\x{200b}-\x{200d}]{2,}|\p{Greek}+?\d*",
        r"\A\s*(?P<name>a|b{2,3})[^a-y]\z",
        r"x(?:)|\.\{\x41",
    ],
)
def test_the_tree_covers_the_pattern_and_yields_texts_that_it_matches(pattern: str) -> None:
    """RE2's syntax, as far as policies use it; every mutation is an edit of the source."""
    tree = parse(pattern)
    assert (tree.start, tree.end) == (0, len(pattern))
    compiled = re2.compile(pattern)
    assert all(compiled.search(Generator({}, {}, seed).text(tree)) for seed in range(5))
    assert all(mutation.apply(pattern) != pattern for mutation in mutations(tree))
