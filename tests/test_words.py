"""The words of the project: nouns as names, and one standard term for each thing (the glossary of the renames)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_WEAK_NAMES = """
asked begun both broken brought called chosen counted drawn each few found given gone got heard held here it kept known
least left lost made many meant mended met more most named one other others own read rest said seen sent shown spent
taken that them there these this those told unread unseen used wanted what when where which who whom whose why written
"""
WEAK_NAMES = frozenset(_WEAK_NAMES.split())
"""Participles and pronouns, which do not say what a value is."""

VERBS = frozenset({"read"})
"""Of these, names that are verbs where a function has them."""

SHARE = 0.01
"""Of all bound names, fewer than this may be weak."""

TERMS = {
    r"bad days?": "failure, failure mode",
    r"beginnings": "stream_lookahead",
    r"cooked|soup": "average_checkpoints",
    r"crowd(ed|s)?": "KEYWORD_STUFFING",
    r"desks?": "ScanService",
    r"doors?": "endpoint, entry point",
    r"dress": "scenarios",
    r"glances?": "first stage",
    r"(go|goes|went) (up|down)": "is forwarded, is sent to the client",
    r"held_back": "holdout",
    r"intake": "request_body",
    r"journal": "decision_log",
    r"let_go": "release",
    r"needles?": "required literals",
    r"pens": "authors, generators",
    r"phones": "phone_numbers",
    r"remembering": "CachedLayer",
    r"rulings?": "ScanOutcome",
    r"screening": "response scanner",
    r"sisters?": "related source",
    r"standing": "aggregation, Aggregate",
    r"strangers": "unauthenticated callers",
    r"stretch(es)?": "chunk, excerpt, time range",
    r"thaw": "import_weights",
    r"whoever": "the caller, client or user that is meant",
    r"wires": "ConnectionPool",
}
"""Words that the project does not use, as regular expressions over lower case, and the standard term for each."""

EXEMPT = {
    r"inj-crowded": "a rule id",
    r"`door`": "the name of a log field, metric label and column",
    r"\{[^}`\n]*\bdoor\b[^}`\n]*\}": "a metric label",
    r"sidecar\.door": "a span attribute",
    r"service desks?": "a department",
    r"test_\w+": "the name of a test, which documents cite",
}
"""Wire names in documents and docstrings, and why they stay."""

EXEMPT_NAMES = {
    ("sidecar/decision_log/rows.py", "door"): "a database column, as a keyword argument",
    ("sidecar/storage/decisions.py", "door"): "a database column",
    ("sidecar/storage/decision_filter.py", "door"): "a database column",
    ("sidecar/storage/rollups.py", "door"): "a database column",
    ("tools/screenshots.py", "door"): "a database column, as a keyword argument",
}
"""The same for names in one module."""

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "policies/README.md", "docs/**/*.md", "benchmarks/**/*.md")
SQL = re.compile(r"(?s)```sql\n.*?```")
"""Statements have the names of columns."""
EXEMPT_DOCUMENTS = {"docs/detection-log.md"}  # a log of measurements, as it was written

GAP = "\uffff"


def relative(path: Path) -> str:
    """The path as the tables above write it."""
    return path.relative_to(ROOT).as_posix()


@cache
def modules(*folders: str) -> tuple[Path, ...]:
    """Python modules, without migrations and packaged policies."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple(path for path in paths if "migrations" not in path.parts and "_policies" not in path.parts)


def bound_names(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The names that a module binds, and whether a function is what has the name."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, True
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                yield name, False
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.arg(arg=name):
                yield name, False
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, False


def is_weak(name: str, function: bool) -> bool:
    """Whether a name is a bare participle or pronoun."""
    word = name.strip("_").lower()
    return word in WEAK_NAMES and not (function and word in VERBS)


def test_names_are_nouns() -> None:
    """Fewer than one bound name in a hundred is a bare participle or pronoun."""
    total, weak = 0, Counter[str]()
    for path in modules("sidecar"):
        names = list(bound_names(ast.parse(path.read_text("utf-8"))))
        total += len(names)
        weak.update(f"{relative(path)}: {name}" for name, function in names if is_weak(name, function))
    worst = "\n".join(f"{count} x {name}" for name, count in weak.most_common(40))
    assert weak.total() < SHARE * total, f"{weak.total()} of {total} names are participles or pronouns:\n{worst}"


def separated(text: str) -> str:
    """In lower case, with an underscore between the words of a CamelCase name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


@cache
def unwanted() -> re.Pattern[str]:
    """All terms; an underscore separates words, and a line may break between two."""
    terms = (f"(?:{term})".replace(" ", r"\s+(?:# )?") for term in TERMS)
    return re.compile(rf"(?<![a-z])(?:{'|'.join(terms)})(?![a-z])")


def unwanted_words(text: str) -> Iterator[str]:
    """Unwanted words of a text, each with its line."""
    text = re.sub("|".join(EXEMPT), lambda match: GAP * len(match[0]), separated(text))
    for match in unwanted().finditer(text):
        term = next(standard for word, standard in TERMS.items() if re.fullmatch(word, " ".join(match[0].split())))
        yield f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]} (say: {term})"


def prose_and_names(path: Path) -> Iterator[tuple[int, str]]:
    """Names, comments and docstrings of a module with their first lines; other strings are left out."""
    statement = True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type in {tokenize.NAME, tokenize.COMMENT} or (token.type == tokenize.STRING and statement):
            yield token.start[0], token.string
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            statement = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def words_of_module(path: Path) -> Iterator[str]:
    """Unwanted words of a module; modules without a match anywhere are not tokenized."""
    if unwanted().search(separated(path.read_text("utf-8"))):
        for line, text in prose_and_names(path):
            if (relative(path), text) not in EXEMPT_NAMES:
                yield from (f"{relative(path)}:{line}, {word}" for word in unwanted_words(text))


@pytest.mark.parametrize("folder", ["sidecar", "training", "benchmarks", "tools"])
def test_modules_use_the_standard_terms(folder: str) -> None:
    """Names, docstrings and comments use the standard term for each thing."""
    assert [word for path in modules(folder) for word in words_of_module(path)] == []


def test_documents_use_the_standard_terms() -> None:
    """Documents use the standard term for each thing."""
    paths = sorted({path for pattern in DOCUMENTS for path in ROOT.glob(pattern)})
    texts = {relative(path): SQL.sub("", path.read_text("utf-8")) for path in paths}
    words = [f"{name}, {word}" for name in texts.keys() - EXEMPT_DOCUMENTS for word in unwanted_words(texts[name])]
    assert sorted(words) == []
