"""Self-test cache: passed rules, stored next to the bytecode and trusted like it, so that a start skips them.

An entry holds for an unchanged rule, examples included, and for the exact code that ran the test: this package, the
matching libraries and Python. Everything else is tested again. Where Python must not write bytecode, nothing is stored.
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
"""Rules in one file; beyond that it starts empty."""


@cache
def code_digest() -> str:
    """Digest of the code that decides what a rule matches; computed once, since running code does not change."""
    digest = hashlib.sha256(f"{sys.version} {[version(name) for name in LIBRARIES]}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def load(rules: Iterable[Rule], cache_file: Path = CACHE_FILE) -> set[Rule]:
    """The rules that this code has passed."""
    digests = _read(cache_file)
    return {rule for rule in rules if digests and _rule_digest(rule) in digests}


def store(rules: Collection[Rule], cache_file: Path = CACHE_FILE) -> None:
    """Add these rules to the file. A folder that is not writable is not an error."""
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
    """Write atomically: other processes read the file."""
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text, "ascii")
    temporary.replace(path)


def _rule_digest(rule: Rule) -> str:
    return hashlib.sha256(rule.model_dump_json().encode()).hexdigest()
