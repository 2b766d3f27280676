"""What the analysis of the shipped patterns found, so that a start need not repeat it: it takes a second.

`python -m tools.prepared` writes the file beside the policies, and a test compares it with the analysis. A pattern is
looked up by its text: one that is not there, since a policy is an operator's own or was changed, is analysed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.errors import PolicyError

NAME = "patterns.json.gz"
"""The file, in the folder of the shipped policies."""
_DIGEST_CHARACTERS = 16


class Analysis(NamedTuple):
    """Of one pattern: the instructions of its program, and its required literals (`sidecar.detectors.rules.literals`).

    `max_letters`: at most so many ASCII letters and digits are in a match.
    """

    size: int
    max_letters: float
    clauses: tuple[frozenset[bytes | str], ...]


def folder() -> Path:
    """The folder of the shipped policies: in the wheel, else at the root of the checkout."""
    here = Path(__file__).parent.parent
    inside = here / "_policies"
    return inside if inside.is_dir() else here.parent / "policies"


def analysis_of(pattern: str) -> Analysis | None:
    """The stored analysis of a pattern; None if there is none."""
    entry = _stored().get(_digest(pattern))
    if entry is None:
        return None
    size, max_letters, clauses = entry
    return Analysis(size, float("inf") if max_letters is None else max_letters, tuple(map(_clause, clauses)))


def forget() -> None:
    """Free the memory of the file once the patterns are read; it is read again when it is needed."""
    _stored.cache_clear()


def encode(analyses: dict[str, Analysis]) -> bytes:
    """The content of the file for these patterns, the same at any time."""
    entries = {
        _digest(pattern): [
            analysis.size,
            None if analysis.max_letters == float("inf") else analysis.max_letters,
            list(map(_stored_clause, analysis.clauses)),
        ]
        for pattern, analysis in analyses.items()
    }
    text = json.dumps(dict(sorted(entries.items())), ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


@cache
def _stored() -> dict[str, Any]:
    """The entries of the file by digest; none without it. Raises `PolicyError` if it is damaged."""
    file = folder() / NAME
    try:
        entries: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        return {str(digest): (size, max_letters, clauses) for digest, (size, max_letters, clauses) in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, zlib.error, ValueError, TypeError, AttributeError) as error:
        problem = f"{file} is damaged ({type(error).__name__}): install again, or remove it, which makes starts slower"
        raise PolicyError("policies cannot be loaded", [problem]) from None


def _digest(pattern: str) -> str:
    return hashlib.sha256(pattern.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _stored_clause(clause: frozenset[bytes | str]) -> list[Any]:
    """Literals of bytes consist of letters, zeros and spaces, so that commas can separate them; then the others."""
    words = sorted(literal.decode() for literal in clause if isinstance(literal, bytes))
    return [",".join(words), *sorted(literal for literal in clause if isinstance(literal, str))]


def _clause(stored: list[str]) -> frozenset[bytes | str]:
    words, *signs = stored
    return frozenset((*(words.encode().split(b",") if words else ()), *signs))
