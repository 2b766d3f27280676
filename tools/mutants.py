"""How much of the patterns the proofs hold: `python -m tools.mutants [--count 2000] [--seed 1] [--survivors FILE]`.

Makes mutants of the shipped policies' patterns, as typing errors would (`tools.regex_tree`), the same number of each
kind, and runs the proofs of the rules that each one touches: the `match`, `no_match` and `misses` lines of the rules,
and the lines of `tests/data/proofs`. A mutant is killed if a proof fails or RE2 refuses it. A survivor is `alike` if
the search of `tools.proofs` finds no text that it judges unlike the original: some of these are equivalent (a part at
the end, an alternative that another one covers), others need a text that the search does not make.
`--write` makes `tests/data/proofs` anew.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from sidecar.policy import shipped_folder
from tools import proofs
from tools.pattern_source import Key, PolicyFile, read
from tools.regex_tree import Mutation

KINDS = ("alternative", "optional", "bound", "boundary", "class", "letter")
KILLED, ALIKE, SURVIVED = "killed", "alike", "survived"


def sample(files: Sequence[PolicyFile], count: int, seed: int) -> list[tuple[PolicyFile, Key, Mutation]]:
    """Mutations of all files, of each kind the same number."""
    by_kind: dict[str, list[tuple[PolicyFile, Key, Mutation]]] = {kind: [] for kind in KINDS}
    for file in files:
        for key, mutation in file.mutations():
            by_kind[mutation.kind].append((file, key, mutation))
    chosen = random.Random(seed)  # noqa: S311 - nothing secret
    sizes = [count // len(KINDS) + (number < count % len(KINDS)) for number in range(len(KINDS))]
    return [item for kind, size in zip(KINDS, sizes, strict=True) for item in chosen.sample(by_kind[kind], size)]


def fate(file: PolicyFile, key: Key, mutation: Mutation) -> str:
    """Whether the mutant is killed, alike or survived."""
    if is_killed(file, key, mutation):
        return KILLED
    return SURVIVED if proofs.distinguishing(file, key, mutation) else ALIKE


def is_killed(file: PolicyFile, key: Key, mutation: Mutation) -> bool:
    """Whether a proof of a rule that the mutation touches fails."""
    try:
        return any(host.kills(file.mutants(key, mutation, host)) for host in file.hosts(key))
    except ValueError:
        return True


def load(folder: Path) -> list[PolicyFile]:
    """The shipped files with all their proofs."""
    files, texts = read(folder), proofs.load()
    for file in files:
        for state in file.rules:
            for text, expected in texts.get(state.rule.id, ()):
                state.add(text, expected=expected)
    return files


@click.command()
@click.option("--count", default=2_000, show_default=True, help="Mutants.")
@click.option("--seed", default=1, show_default=True, help="Of their choice.")
@click.option("--survivors", type=click.Path(path_type=Path), help="List of the mutants that live, with the reason.")
@click.option("--write", "rewrite", is_flag=True, help="Make tests/data/proofs anew instead.")
def main(count: int, seed: int, survivors: Path | None, *, rewrite: bool) -> None:
    """Print the share of mutants that the proofs kill."""
    folder = shipped_folder()
    if rewrite:
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(proofs.write, sorted(folder.glob("*.yaml"))))
        return
    fates = [(item, fate(*item)) for item in sample(load(folder), count, seed)]
    if survivors:
        lines = [f"{outcome}: {_described(*item)}\n" for item, outcome in fates if outcome != KILLED]
        survivors.write_text("".join(lines), "utf-8")
    for kind in (*KINDS, "all"):
        _show(kind, Counter(outcome for (_, _, mutation), outcome in fates if kind in {mutation.kind, "all"}))


def _described(file: PolicyFile, key: Key, mutation: Mutation) -> str:
    source, (start, end) = file.source(key), (mutation.start, mutation.end)
    before, after = source[max(0, start - 25) : start], source[end : end + 25]
    place = f"{key[0]} pattern {key[1] + 1}" if key[1] >= 0 else f"word {key[0]}"
    change = f"{before}<<{source[start:end]}>>{after} with {mutation.replacement!r}"
    return f"{mutation.kind} in {file.name}, {place}: {change}"


def _show(kind: str, counts: Counter[str]) -> None:
    killed, alike, survived = (counts[outcome] for outcome in (KILLED, ALIKE, SURVIVED))
    click.echo(
        f"{kind:12} mutants {counts.total():5}  killed {killed:5} ({killed / counts.total():.1%})  alike {alike:4}  "
        f"survived {survived:4}  killed of those not alike {killed / max(1, killed + survived):.1%}"
    )


if __name__ == "__main__":
    main()
