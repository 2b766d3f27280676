"""Puts together what a body keeps apart and a model reads in a row: parts of a message, items of a list, turns.

An attack split over them shows only here. Bounded: the last turns, the first parts, and of each piece its
two ends, because a sentence that is cut has its cut at the ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from sidecar.bodies.walk import Leaf
from sidecar.types import Channel, Role, Segment

TURNS = 5
"""Turns of one role that are joined, the last ones."""
PARTS = 16
"""Pieces of one turn or list that are joined, the first ones."""
MOST = 16
"""Joined texts of one request, the last ones."""
PIECE = 512
"""Code points of one piece."""

_Key = tuple[str, Role, Channel]
_Group = tuple[_Key, list[str]]


def join(leaves: Iterable[Leaf]) -> tuple[Segment, ...]:
    """The joined texts of a request; their path is the message, list or conversation that they stand in."""
    prose = [leaf for leaf in leaves if leaf.prose and leaf.place.turn and leaf.place.role in _SCANNED]
    groups = [(key, [leaf.text for leaf in group][:PARTS]) for key, group in groupby(prose, key=_key)]
    parts = [segment for key, texts in groups for segment in _parts(key, texts)]
    return (*parts[-MOST:], *_conversations(groups)[-MOST:])


_SCANNED = frozenset({Role.USER, Role.TOOL, Role.OTHER})


def _key(leaf: Leaf) -> _Key:
    return leaf.place.turn, leaf.place.role, leaf.place.channel


def _parts(key: _Key, texts: Sequence[str]) -> Iterator[Segment]:
    """The pieces line by line; and without a break, where one goes through a word of a message."""
    if len(texts) < 2:
        return
    turn, role, channel = key
    pieces = [_ends(text) for text in texts]
    yield Segment("\n".join(pieces), role, turn, channel, joined=True)
    if _is_turn(turn) and any(left[-1:].isalnum() and right[:1].isalnum() for left, right in pairwise(pieces)):
        yield Segment("".join(pieces), role, turn, channel, joined=True)


def _conversations(groups: Iterable[_Group]) -> list[Segment]:
    """The last turns of those who speak to the model, and the last tool results, of each conversation."""
    speakers: dict[tuple[str, bool], list[_Group]] = {}
    for key, texts in groups:
        if _is_turn(key[0]):
            speakers.setdefault((key[0].rpartition(".")[0], key[1] is Role.TOOL), []).append((key, texts))
    return [_conversation(path, turns[-TURNS:]) for (path, _), turns in speakers.items() if len(turns) > 1]


def _conversation(path: str, turns: Sequence[_Group]) -> Segment:
    (_, role, channel), _ = turns[-1]
    text = "\n".join(_ends(text) for _, texts in turns for text in texts)
    return Segment(text, role, path, channel, joined=True)


def without(joined: str, pieces: Iterable[str]) -> str:
    """A joined text without these of its pieces."""
    for piece in pieces:
        joined = joined.replace(_ends(piece), "")
    return joined


def _is_turn(path: str) -> bool:
    """Turns stand in a list; a list of plain strings goes by its own name."""
    return path.rpartition(".")[2].isdigit()


def _ends(text: str) -> str:
    half = PIECE // 2
    return text if len(text) <= PIECE else f"{text[:half]}\n{text[-half:]}"
