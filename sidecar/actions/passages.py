"""Where a value stands in third-party text: as a value of its own (field, header, cell, labelled line) or in prose.

A result is split into passages. JSON gives one for every value; text gives lines, cells of tables, and sentences. The
record of a passage holds the short values beside it: a name stands there beside its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sidecar.actions.atoms import Atom, AtomKind, text_atoms
from sidecar.actions.conversation import Result
from sidecar.util import json

MAX_PASSAGES = 4_000
"""Passages of one conversation; the last results come first. Text beyond is read as prose, in pieces."""
MAX_PIECE, PIECE_OVERLAP = 600, 100
MAX_RECORD = 600
_SHORT = 120
MAX_RECORD_WORDS = 8
"""Words of a value up to which it is a name or title: prose beside a value would let its author choose its company."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;])\s+|(?<=[。！？])|\n+")
_LABEL = re.compile(r"^\W{0,4}([^\W\d_][^:：=\n]{0,48})[:：=]\s*(.*)$")
_CELLS = re.compile(r"\s{0,4}[;|\t]\s{0,4}|\s{3,}|\s·\s")
_CODE_SPAN = re.compile(r"`[^`\n]{1,400}`")
_TAG = re.compile(r"<(?:br|/p|/div|/tr|/li|/h\d|/td|/th)[^<>]{0,40}>", re.IGNORECASE)
_HREF = re.compile(r"(?:href|src|action)\s{0,4}=\s{0,4}[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)
_REACHING = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT, AtomKind.PHONE, AtomKind.URL})
_WORDS = re.compile(r"[^\W\d_]{2,}")
_ABBREVIATED = re.compile(r"(?:^|[\s,])[^\W\d_]\w{0,3}\.\W*$")
"""An abbreviation at the end (`Ltd.`, `St.`): no end of a sentence."""
MAX_LABEL_WORDS = 3
MAX_WORDS_BESIDE = 5
"""Words beside the atoms of a line up to which it is a value with its label, not a sentence."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of third-party text. `around`: it with its neighbours, `record`: the short values beside it."""

    text: str
    result: int
    structured: bool
    label: str = ""
    record: str = ""
    around: str = ""
    atoms: tuple[Atom, ...] = ()


def passages_of(results: list[Result]) -> list[Passage]:
    """The passages of all results, those of the last result first. One that is cut comes a second time as prose."""
    passages: list[Passage] = []
    for number in range(len(results) - 1, -1, -1):
        for passage in _split(results[number].text, number):
            passages.append(passage)
            if len(passages) >= MAX_PASSAGES:
                return passages + [
                    piece for rest in range(number, -1, -1) for piece in _pieces(results[rest].text, rest)
                ]
    return passages


def _pieces(text: str, number: int) -> Iterator[Passage]:
    for start in range(0, len(text), MAX_PIECE - PIECE_OVERLAP):
        piece = text[start : start + MAX_PIECE]
        yield Passage(piece, number, False, "", "", piece, tuple(text_atoms(piece)))


def _split(text: str, number: int) -> Iterator[Passage]:
    value = json.embedded(text)
    yield from _text(value, number, "") if isinstance(value, str) else _json(value, number)


def _json(document: Any, number: int) -> Iterator[Passage]:
    """One or more passages for every value, in order. A stack of its own: a third party chooses the depth."""
    stack: list[tuple[Any, str, str]] = [(document, "", "")]
    while stack:
        value, label, record = stack.pop()
        if isinstance(value, dict):
            own = _record(value.values()) or record
            stack += [(child, str(name), own) for name, child in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(child, label, record) for child in reversed(value)]
        elif not isinstance(value, bool) and value is not None:
            yield from _value(value, number, label, record)


def _value(value: Any, number: int, label: str, record: str) -> Iterator[Passage]:
    if isinstance(value, str) and (len(value) > _SHORT or "\n" in value or len(_WORDS.findall(value)) > 8):
        yield from _text(value, number, label)
    else:
        yield from _line(str(value), number, label, record, str(value))


def _record(values: Any) -> str:
    """The short values of an object, and those of small objects in it."""
    parts: list[str] = []
    for value in values:
        if isinstance(value, dict):
            parts += [inner for inner in value.values() if isinstance(inner, str) and _is_short(inner)]
        elif isinstance(value, str | int | float) and _is_short(str(value)):
            parts.append(str(value))
    return " | ".join(parts)[:MAX_RECORD]


def _is_short(value: str) -> bool:
    return len(value) <= _SHORT and len(_WORDS.findall(value)) <= MAX_RECORD_WORDS


def _text(text: str, number: int, label: str) -> Iterator[Passage]:
    """The passages of a text: by lines, and prose by sentences."""
    if "<" in text:
        text = text.replace("<!--", "\n").replace("-->", "\n")
        text = _HREF.sub(lambda hit: hit.group() + " > \n" + hit.group(1) + "\n<", text)
        text = re.sub(r"<(?!\S{1,64}@)[^<>]{0,400}>", " ", _TAG.sub("\n", text))
    lines = [line.strip() for line in text.split("\n")]
    for index, line in enumerate(lines):
        if not line:
            continue
        record = " | ".join(part for part in lines[max(0, index - 2) : index + 3] if part and len(part) <= _SHORT)
        cells = [cell.replace("\0", "|") for cell in _CELLS.split(_CODE_SPAN.sub(_without_bars, line)) if cell]
        cells = cells if len(cells) > 1 else _comma_cells(line)
        if len(cells) > 1:
            for cell in cells:
                yield from _line(cell, number, label, line[:MAX_RECORD], line)
        else:
            yield from _line(line, number, label, record[:MAX_RECORD], line)


def _without_bars(span: re.Match[str]) -> str:
    """A bar in a command separates no cells."""
    return span.group().replace("|", "\0")


def _comma_cells(line: str) -> list[str]:
    cells = line.split(",")
    is_row = len(cells) >= 3 and all(cell[:1] != " " and len(cell) < 60 for cell in cells[1:])
    return cells if is_row else [line]


def _line(line: str, number: int, label: str, record: str, whole: str) -> Iterator[Passage]:
    """A value with its label is one passage; a longer line is split into sentences."""
    labelled = _LABEL.match(line)
    atoms = tuple(text_atoms(line)) if len(line) <= MAX_RECORD else ()
    if len(line) <= MAX_RECORD and _is_value(line, atoms):
        name = labelled.group(1) if labelled and not label else label
        yield Passage(line, number, True, name, record, whole[:MAX_RECORD], atoms)
        return
    sentences = [sentence for sentence in _SENTENCE_END.split(line) if sentence]
    for index, sentence in enumerate(sentences):
        around = " ".join(sentences[max(0, index - 1) : index + 2])
        found = tuple(text_atoms(sentence))
        is_value = len(sentence) <= MAX_RECORD and _is_value(sentence, found)
        yield Passage(sentence, number, is_value, label, sentence[:MAX_RECORD], around[: 3 * MAX_RECORD], found)


def _is_labelled(text: str, atom: Atom) -> bool:
    """Whether a label of few words stands directly before a value that says whom something reaches."""
    label = _LABEL.match(text[: atom.start])
    if label is None or atom.kind not in _REACHING or len(_WORDS.findall(label.group(1))) > MAX_LABEL_WORDS:
        return False
    if len(_WORDS.findall(label.group(2))) > MAX_LABEL_WORDS + 1:
        return False
    between = _WORDS.findall(label.group(2).rpartition(",")[2])
    return not between or (len(between) == 1 and between[0].isupper())


def _is_list(text: str) -> bool:
    """Whether a text is a list of short parts, as a postal address is."""
    return len(text) <= _SHORT and not re.search(r"[.!?]\W*$", text) and _has_short_parts(text, MAX_LABEL_WORDS)


def _is_list_of_contacts(rest: str) -> bool:
    """Whether what stands beside addresses or accounts is a list: who was present, a bank's numbers."""
    label = _LABEL.match(rest)
    if label and len(_WORDS.findall(label.group(1))) > MAX_LABEL_WORDS + 1:
        return False
    if len(rest) > _SHORT or (re.search(r"[.!?]\W*$", rest) and not _ABBREVIATED.search(rest)):
        return False
    return _has_short_parts(label.group(2) if label else rest, MAX_LABEL_WORDS + 1)


def _has_short_parts(text: str, words: int) -> bool:
    parts = text.split(",")
    return len(parts) > 2 and all(len(_WORDS.findall(part)) <= words for part in parts)


def _is_value(text: str, atoms: tuple[Atom, ...]) -> bool:
    """Whether a text is a value, perhaps with a label or a name, and not a sentence."""
    rest = text
    for atom in atoms:
        if len(atom.text) > 3:
            rest = rest.replace(atom.text, " ")
    if re.search(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]", rest):
        return len(re.findall(r"\w", rest)) <= 14
    if any(_is_labelled(text, atom) for atom in atoms) or _is_list(text):
        return True
    if any(atom.kind in _REACHING for atom in atoms) and _is_list_of_contacts(rest):
        return True
    words = len(_WORDS.findall(rest))
    return words <= MAX_WORDS_BESIDE and not (words > 1 and re.search(r"[.!?]\W*$", text))
