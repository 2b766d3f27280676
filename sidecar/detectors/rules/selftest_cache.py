"""What was proved before, kept beside the bytecode and trusted as that is: such rules need no proof at every start.

A proof holds for a rule word for word, its examples included, and for the very code that ran it: this package, the
libraries that match, and Python. Whatever else is proved anew. Where Python may not keep bytecode, neither do we.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from sidecar.policy import Rule

PACKAGE = Path(__file__).parent.parent.parent
RECORD = PACKAGE / "__pycache__" / "proven.txt"
LIBRARIES = ("google-re2", "ahocorasick-rs", "phonenumbers", "python-stdnum", "pydantic", "PyYAML")
MOST = 5_000
"""Rules of one record; beyond that it begins anew."""


@cache
def code() -> str:
    """The code that decides what a rule meets, as one digest; taken once, since what runs does not change."""
    digest = hashlib.sha256(f"{sys.version} {[version(name) for name in LIBRARIES]}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def recall(rules: Iterable[Rule], record: Path = RECORD) -> set[Rule]:
    """Those that this code has proved."""
    known = _read(record)
    return {rule for rule in rules if known and _name(rule) in known}


def keep(rules: Collection[Rule], record: Path = RECORD) -> None:
    """Remember these, beside what is remembered. A folder that cannot be written to is no trouble."""
    if sys.dont_write_bytecode:
        return
    names, known = {_name(rule) for rule in rules}, _read(record)
    if names <= known:
        return
    names |= known if len(known) < MOST else set()
    with suppress(OSError):
        _replace(record, "\n".join([code(), *sorted(names)]) + "\n")


def _read(record: Path) -> set[str]:
    try:
        lines = record.read_text("ascii").split("\n")
    except (OSError, ValueError):
        return set()
    return set(lines[1:-1]) if lines[0] == code() else set()


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: other processes read it."""
    path.parent.mkdir(exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(text, "ascii")
    written.replace(path)


def _name(rule: Rule) -> str:
    return hashlib.sha256(rule.model_dump_json().encode()).hexdigest()
