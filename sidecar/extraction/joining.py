"""Joins texts that are separate in a body but read in sequence by a model: parts of a message, list items, turns.

An attack split across them is visible only in the joined text. The size is bounded: of a turn or list, every piece is
included, but long ones only with head and tail, because a split sentence is cut there; the more pieces, the shorter.
Of a conversation, the last turns are included, and more of them if they are short. Truncated texts are read by rules
only: the model was not trained on sentences that end in the middle. So are the fragments of the texts of a conversation
(see `fragments`), which may be pieces of a sentence that stand in the middle of long texts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from sidecar.extraction.fragments import MAX_LENGTH, fragments
from sidecar.extraction.walker import Leaf
from sidecar.types import Segment, Source

MIN_TURNS = 5
"""The last so many turns of one role are joined, and earlier ones while the total is at most `MAX_SHORT_TURNS`."""
MAX_SHORT_TURNS = 1_024
MAX_JOINED = 8_192
"""Code points of one joined text; exceeded only if even the shortest of `PIECE_LENGTHS` takes more."""
PIECE_LENGTHS = (512, 256, 128, 64)
"""Code points of one piece: the first value with which all pieces fit into `MAX_JOINED`."""

_Key = tuple[str, Source]
_Group = tuple[_Key, list[str]]
_Joined = tuple[str, tuple[int, ...]]


def join(leaves: Sequence[Leaf]) -> tuple[Segment, ...]:
    """The joined texts of a request; their path is that of the message, list or conversation."""
    if len(leaves) < 2:
        return ()
    prose = [leaf for leaf in leaves if leaf.prose and leaf.location.turn and leaf.location.source in _JOINED]
    groups = [(key, [leaf.text for leaf in group]) for key, group in groupby(prose, key=_key)]
    parts = [segment for key, texts in groups for segment in _joined_parts(key, texts)]
    return (*parts, *_conversations(groups))


_JOINED = frozenset({Source.USER, Source.UNTRUSTED})


def _key(leaf: Leaf) -> _Key:
    return leaf.location.turn, leaf.location.source


def _joined_parts(key: _Key, texts: Sequence[str]) -> Iterator[Segment]:
    """Join the pieces with line breaks, and also without where a message is split inside a word."""
    if len(texts) < 2:
        return
    turn, source = key
    pieces, truncated = _pieces(texts)
    manners = [_in_sequence]
    if _is_turn(turn) and any(head[-1][-1:].isalnum() and tail[0][:1].isalnum() for head, tail in pairwise(pieces)):
        manners.append(_glued)
    for manner in manners:
        text, joins = manner(texts)
        yield Segment(text, source, turn, joined=True, rules_only=truncated, parts=tuple(texts), joins=joins)


def _conversations(groups: Iterable[_Group]) -> list[Segment]:
    """Join, for each conversation, the latest user turns and the latest tool results."""
    speakers: dict[tuple[str, Source], list[_Group]] = {}
    for key, texts in groups:
        if _is_turn(key[0]):
            speakers.setdefault((key[0].rpartition(".")[0], key[1]), []).append((key, texts))
    conversations = [(path, _latest(turns)) for (path, _), turns in speakers.items() if len(turns) > 1]
    return [segment for path, turns in conversations for segment in _conversation(path, turns)]


def _latest(turns: Sequence[_Group]) -> Sequence[_Group]:
    # Invariant: `size` is the length of the last `count` + 1 turns.
    size = 0
    for count, (_, texts) in enumerate(reversed(turns)):
        size += sum(map(len, texts))
        if count >= MIN_TURNS and size > MAX_SHORT_TURNS:
            return turns[-count:]
    return turns


def _conversation(path: str, turns: Sequence[_Group]) -> Iterator[Segment]:
    (_, source), _ = turns[-1]
    parts = tuple(text for _, texts in turns for text in texts)
    _, truncated = _pieces(parts)
    for manner, rules_only in ((_in_sequence, truncated), (_fragments, True)):
        text, joins = manner(parts)
        if text:
            yield Segment(text, source, path, joined=True, rules_only=rules_only, parts=parts, joins=joins)


def _fragments(parts: Sequence[str]) -> _Joined:
    """The fragments of the parts, where several parts have some; empty if no part is longer than a fragment."""
    groups = [pieces for part in parts if (pieces := fragments(part))]
    if len(groups) < 2 or all(len(part) <= MAX_LENGTH for part in parts):
        return "", ()
    text, joins = _laid_out([[fragment] for group in groups for fragment in group], _separator)
    return text[:MAX_JOINED], joins


def _in_sequence(parts: Sequence[str]) -> _Joined:
    return _laid_out(_pieces(parts)[0], _separator)


def _glued(parts: Sequence[str]) -> _Joined:
    return _laid_out(_pieces(parts)[0], lambda _first, _second: "")


def _laid_out(texts: Iterable[Sequence[str]], separator: Callable[[str, str], str]) -> _Joined:
    """The texts, each as its head and tail or whole, and the offsets at which pieces begin that follow another."""
    parts, joins, size = [""], list[int](), 0
    for pieces in texts:
        for number, piece in enumerate(pieces):
            if size:
                between = "\n" if number else separator(parts[-1], piece)
                size += len(between)
                joins.append(size)
                parts.append(between)
            parts.append(piece)
            size += len(piece)
    return "".join(parts), tuple(joins)


def _separator(first: str, second: str) -> str:
    """A line break, or a space where a sentence is cut: a line break would hide it."""
    is_cut = (first[-1:].isalnum() or first[-1:] == ",") and second[:1].islower()
    return " " if is_cut else "\n"


def without(joined: Segment, texts: Container[str]) -> Segment:
    """A joined segment without the parts that are among `texts`; the same segment if none is."""
    parts = tuple(part for part in joined.parts if part not in texts)
    if len(parts) == len(joined.parts):
        return joined
    manner = next((manner for manner in _MANNERS if manner(joined.parts)[0] == joined.text), _in_sequence)
    text, joins = manner(parts)
    return replace(joined, text=text, parts=parts, joins=joins)


def _is_turn(path: str) -> bool:
    """Whether a path is that of a turn, which is an item of a list, and not that of a list of strings."""
    return path.rpartition(".")[2].isdigit()


def _pieces(texts: Sequence[str]) -> tuple[list[tuple[str, ...]], bool]:
    """Each text, or its head and tail where all would not fit; and whether any was cut: no model can judge it then."""
    size = next((size for size in PIECE_LENGTHS if size * len(texts) <= MAX_JOINED), PIECE_LENGTHS[-1])
    half = size // 2
    pieces: list[tuple[str, ...]] = [(text,) if len(text) <= size else (text[:half], text[-half:]) for text in texts]
    return pieces, any(len(text) > size for text in texts)


_MANNERS: tuple[Callable[[Sequence[str]], _Joined], ...] = (_in_sequence, _glued, _fragments)
"""The ways in which texts are joined."""
