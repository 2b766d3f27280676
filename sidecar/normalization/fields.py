"""Sentences spread over cells, list items, fields and string literals: one or two words, or a piece of a word, in each.

It is a view only if the cells read as English with function words among them: lists of names and tables are not.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from sidecar.normalization.letters import english_text
from sidecar.normalization.normalized_text import NormalizedText, Replacement, assemble
from sidecar.normalization.vocabulary import FUNCTION_WORDS

SPREAD = "spread"
MIN_CELLS, MAX_CELL_WORDS, MIN_FUNCTION_SHARE = 6, 2, 0.15
MIN_LITERALS, MAX_PIECE, MAX_LENGTH = 4, 16, 100
"""Literals of a run, their mean length, and the longest one."""
_LITERAL = re.compile(
    rf'"[^"\n]{{0,{MAX_LENGTH}}}"\s*:|"((?:[^"\\\n]|\\.){{0,{MAX_LENGTH}}})"|(?<!\w)\'([^\'\n]{{0,{MAX_LENGTH}}})\'(?!\w)'
)
"""A key of JSON, which is not read, or a literal."""
_ESCAPED = re.compile(r"\\(.)")
_BLANK_ESCAPES = "nrtfv"
_BETWEEN_LITERALS = re.compile(r"[\s\w,;:=+.&|(){}\[\]\"'$@-]{0,60}")
_ENTITY = re.compile(r"&#?\w{1,9};")
_SYMBOL = r"\u2190-\u2bff\U0001f000-\U0001faff"
_CELL = re.compile(
    rf"[&<|\n\t,;\s{_SYMBOL}](?:(?<=[|\n\t{_SYMBOL}])|(?<=[,;])(?![^\S\n]*[<|\n{_SYMBOL}])"
    rf"|(?<=[^\S\n])[^\S\n]{{2,}}|(?<=<)[^<>\n]*>|(?<=&)#?\w{{1,9}};)"
)
"""What ends a cell: a tag, a separator, a symbol or emoji, blanks. An entity does not, nor punctuation at its end.
The set of first characters makes the search faster."""
_LABEL = re.compile(r"^[\s\d.):*>#+-]*(?:[\w-]{1,12}\s*[:=](?=\s+\S))?[\s\d.):*>#+\"'-]*")
_ENDS = " \t\"'`*_[](){}"


def spread(view: NormalizedText) -> NormalizedText | None:
    """The view with spread sentences in one, if it has any."""
    literals = [*_literals(view.text)]
    cells = [
        cell
        for cell in _cells(view.text)
        if not any(cell.start < other.end and other.start < cell.end for other in literals)
    ]
    return assemble(view, SPREAD, sorted((*literals, *cells)), hidden=True, context=0)


def _literals(text: str) -> Iterator[Replacement]:
    """Runs of string literals, joined as code would join them, or with a space."""
    if text.count('"') + text.count("'") < 2 * MIN_LITERALS:
        return
    run: list[re.Match[str]] = []
    for literal in _LITERAL.finditer(text):
        if literal.group().endswith(":"):
            continue
        if run and not _BETWEEN_LITERALS.fullmatch(text, run[-1].end(), literal.start()):
            yield from _joined_literals(run)
            run = []
        run.append(literal)
    yield from _joined_literals(run)


def _joined_literals(run: list[re.Match[str]]) -> Iterator[Replacement]:
    pieces = [_ESCAPED.sub(_unescaped, literal.group(1) or literal.group(2) or "") for literal in run]
    if len(run) < MIN_LITERALS or sum(map(len, pieces)) > MAX_PIECE * len(pieces):
        return
    for joined in ("".join(pieces), " ".join(pieces)):
        if _is_sentence(joined):
            yield Replacement(run[0].start(), run[-1].end(), joined)
            return


def _unescaped(escape: re.Match[str]) -> str:
    """What an escape in a literal stands for: white space, or the sign behind the backslash."""
    return " " if escape.group(1) in _BLANK_ESCAPES else escape.group(1)


def _cells(text: str) -> Iterator[Replacement]:
    """Runs of cells of one or two words."""
    run: list[tuple[int, int, str]] = []
    start = 0
    ends = [match.span() for match in _CELL.finditer(text) if not _ENTITY.fullmatch(match.group())]
    for end, following in (*ends, (len(text), len(text))):
        words = _LABEL.sub("", html.unescape(text[start:end])).strip(_ENDS)
        if words and len(words.split()) <= MAX_CELL_WORDS:
            run.append((start, end, words))
        elif words:
            yield from _joined_cells(run)
            run = []
        start = following
    yield from _joined_cells(run)


def _joined_cells(run: list[tuple[int, int, str]]) -> Iterator[Replacement]:
    joined = " ".join(words for _, _, words in run)
    if len(run) >= MIN_CELLS and _is_sentence(joined):
        yield Replacement(run[0][0], run[-1][1], joined)


def _is_sentence(text: str) -> bool:
    words = [word for word in (word.strip(".,;:!?\"'()") for word in text.lower().split()) if word.isalpha()]
    functional = sum(word in FUNCTION_WORDS for word in words)
    return functional >= max(2, MIN_FUNCTION_SHARE * len(words)) and english_text(words) is not None
