"""Puts together what a body keeps apart and a model reads in a row: parts of a message, items of a list, turns.

An attack split over them shows only here. Bounded: all pieces of one turn or list, but of each its two ends,
because a sentence that is cut has its cut at the ends, and the shorter the more pieces there are; the last turns,
and more of them where they are short, because it takes many to say anything. What was cut to its ends is read by rules
alone: sentences that end in the middle look like nothing that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, product

from sidecar.extraction.walker import Leaf
from sidecar.types import Segment, Source

TURNS = 5
"""Turns of one role that are joined, the last ones; and those before them that fit into `SHORT` with all behind."""
SHORT = 1_024
WHOLE = 8_192
"""Code points of one joined text, as long as the shortest of `PIECES` do not take more."""
PIECES = (512, 256, 128, 64)
"""Code points of one piece: the first with which all pieces fit into `WHOLE`."""

_Key = tuple[str, Source]
_Group = tuple[_Key, list[str]]


def join(leaves: Iterable[Leaf]) -> tuple[Segment, ...]:
    """The joined texts of a request; their path is the message, list or conversation that they stand in."""
    prose = [leaf for leaf in leaves if leaf.prose and leaf.place.turn and leaf.place.source in _JOINED]
    groups = [(key, [leaf.text for leaf in group]) for key, group in groupby(prose, key=_key)]
    parts = [segment for key, texts in groups for segment in _parts(key, texts)]
    return (*parts, *_conversations(groups))


_JOINED = frozenset({Source.USER, Source.UNTRUSTED})


def _key(leaf: Leaf) -> _Key:
    return leaf.place.turn, leaf.place.source


def _parts(key: _Key, texts: Sequence[str]) -> Iterator[Segment]:
    """The pieces line by line; and without a break, where one goes through a word of a message."""
    if len(texts) < 2:
        return
    turn, source = key
    pieces, cut = _pieces(texts)
    yield Segment("\n".join(pieces), source, turn, joined=True, rules_only=cut)
    if _is_turn(turn) and any(left[-1:].isalnum() and right[:1].isalnum() for left, right in pairwise(pieces)):
        yield Segment("".join(pieces), source, turn, joined=True, rules_only=cut)


def _conversations(groups: Iterable[_Group]) -> list[Segment]:
    """The latest turns of those who speak to the model, and the latest tool results, of each conversation."""
    speakers: dict[tuple[str, Source], list[_Group]] = {}
    for key, texts in groups:
        if _is_turn(key[0]):
            speakers.setdefault((key[0].rpartition(".")[0], key[1]), []).append((key, texts))
    return [_conversation(path, _latest(turns)) for (path, _), turns in speakers.items() if len(turns) > 1]


def _latest(turns: Sequence[_Group]) -> Sequence[_Group]:
    size = 0
    for taken, (_, texts) in enumerate(reversed(turns)):
        size += sum(map(len, texts))
        if taken >= TURNS and size > SHORT:
            return turns[-taken:]
    return turns


def _conversation(path: str, turns: Sequence[_Group]) -> Segment:
    (_, source), _ = turns[-1]
    pieces, cut = _pieces([text for _, texts in turns for text in texts])
    return Segment("\n".join(pieces), source, path, joined=True, rules_only=cut)


def without(joined: str, pieces: Iterable[str]) -> str:
    """A joined text without these of its pieces."""
    for piece, size in product(pieces, PIECES):
        joined = joined.replace(_ends(piece, size), "")
    return joined


def _is_turn(path: str) -> bool:
    """Turns stand in a list; a list of plain strings goes by its own name."""
    return path.rpartition(".")[2].isdigit()


def _pieces(texts: Sequence[str]) -> tuple[list[str], bool]:
    """What is joined of each text, and whether anything is left out: then a model could not judge it."""
    size = next((size for size in PIECES if size * len(texts) <= WHOLE), PIECES[-1])
    return [_ends(text, size) for text in texts], any(len(text) > size for text in texts)


def _ends(text: str, size: int) -> str:
    half = size // 2
    return text if len(text) <= size else f"{text[:half]}\n{text[-half:]}"
