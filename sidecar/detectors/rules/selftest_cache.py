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
CACHE_FILE = PACKAGE / "__pycache__" / "proven.txt"
LIBRARIES = ("google-re2", "ahocorasick-rs", "phonenumbers", "python-stdnum", "pydantic", "PyYAML")
MAX_RULES = 5_000
"""Rules of one record; beyond that it begins anew."""


@cache
def code_digest() -> str:
    """The code that decides what a rule meets, as one digest; taken once, since what runs does not change."""
    digest = hashlib.sha256(f"{sys.version} {[version(name) for name in LIBRARIES]}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def load(rules: Iterable[Rule], cache_file: Path = CACHE_FILE) -> set[Rule]:
    """Those that this code has proved."""
    digests = _read(cache_file)
    return {rule for rule in rules if digests and _rule_digest(rule) in digests}


def store(rules: Collection[Rule], cache_file: Path = CACHE_FILE) -> None:
    """Remember these, beside what is remembered. A folder that cannot be written to is no trouble."""
    if sys.dont_write_bytecode:
        return
    digests, stored = {_rule_digest(rule) for rule in rules}, _read(cache_file)
    if digests <= stored:
        return
    digests |= stored if len(stored) < MAX_RULES else set()
    with suppress(OSError):
        _replace(cache_file, "\n".join([code_digest(), *sorted(digests)]) + "\n")


def _read(cache_file: Path) -> set[str]:
    try:
        lines = cache_file.read_text("ascii").split("\n")
    except (OSError, ValueError):
        return set()
    return set(lines[1:-1]) if lines[0] == code_digest() else set()


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: other processes read it."""
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text, "ascii")
    temporary.replace(path)


def _rule_digest(rule: Rule) -> str:
    return hashlib.sha256(rule.model_dump_json().encode()).hexdigest()
