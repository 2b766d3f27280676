"""Views of a text: what a reader sees and what a model would decode, each with the way back.

`views(text)` begins with the text itself. Plain ASCII costs one pass of hint patterns; each hint that is met buys the
view it hints at, and what comes out is looked at once more, so that nesting is undone to depth 2. The views together
are at most `ROOM` times as long as the text (and `ROOM_LEAST` is always granted), the most promising first
(`sidecar.normalization.budget`). If one that promised something found no room, the last view says so by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import re2

from sidecar.normalization import ciphers, codecs, folding, spelling
from sidecar.normalization.budget import ROOM, ROOM_LEAST, Room
from sidecar.normalization.view import Run, View, assemble

__all__ = [
    "CODEC_NAMES",
    "DEPTH",
    "OVERFLOW",
    "ROOM",
    "ROOM_LEAST",
    "STEPS",
    "Run",
    "View",
    "encodable",
    "forget",
    "is_plain",
    "views",
]

DEPTH = 2
REMEMBERED, REMEMBERED_LENGTH = 32, 10_000
"""The views of so many texts, each of at most so many code points, are kept: layers read the same text in turn."""

_CODECS = {codec.name: (codec, re2.compile(codec.pattern)) for codec in codecs.CODECS}
CODEC_NAMES = tuple(_CODECS)
_CIPHERS = dict(ciphers.spelled())
STEPS = ("unhidden", "folded", *_CODECS, *spelling.HINTS, *_CIPHERS)
"""Every step that can occur in the path of a view."""


def _set(patterns: Iterable[str]) -> re2.Set:
    options = re2.Options()
    options.never_capture, options.log_errors = True, False
    options.max_mem = 64 << 20
    chosen = re2.Set.SearchSet(options)
    for pattern in patterns:
        chosen.Add(pattern)
    chosen.Compile()
    return chosen


OVERFLOW = "overflow"
"""The only step of a last, empty view: there was more to undo than there was room for."""
_HINTS = {**{name: codec.hint for name, (codec, _) in _CODECS.items()}, **spelling.HINTS}
_TOGETHER = (
    ("url", "quoted", "entities", "escapes", "calls", "braille", "tags", "selectors", "bits"),
    ("base64", "base32", "base85", "hex"),
    ("chunks",),
    ("binary", "decimal", "morse"),
    (spelling.LEET,),
    (spelling.SPACED,),
    (spelling.MENDED, spelling.RUN_ON),
)
"""Hints that share an automaton. All in one would need far more states, which it makes as a text asks for them: five
times as long for a text that is new."""
_SETS = [(names, _set(_HINTS[name] for name in names)) for names in _TOGETHER] + [
    (tuple(_CIPHERS), _set(_CIPHERS.values()))
]


def views(text: str) -> Sequence[View]:
    """The text itself and every other reading of it, shallow ones first. Never raises."""
    return _remembered(text) if len(text) <= REMEMBERED_LENGTH else _made(text)


@lru_cache(REMEMBERED)
def _remembered(text: str) -> Sequence[View]:
    return _made(text)


def forget() -> None:
    """Remember no text any more: for measurements of texts that are read again and again."""
    _remembered.cache_clear()
    _remembered_hints.cache_clear()


def _made(text: str) -> Sequence[View]:
    raw = View(encodable(text))
    found = [raw, *folding.readings(raw)]
    room = Room(len(raw.text))
    seen = {view.text for view in found}
    level = list(found)
    for _ in range(DEPTH):
        fresh: list[View] = []
        for view in (deeper for base in level for deeper in _deeper(base, room)):
            if room.left:
                return (*found, *fresh, View("", (OVERFLOW,), parent=raw))
            if view.text in seen:
                continue
            seen.add(view.text)
            fresh.append(view)
        found += fresh
        level = fresh
    return (*found, View("", (OVERFLOW,), parent=raw)) if room.left else tuple(found)


def encodable(text: str) -> str:
    """Lone surrogates, which no encoding knows, as question marks; everything else as it is."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_plain(text: str) -> bool:
    """Whether nothing in a text hints at another reading: it is its only view."""
    return not _hinted(text) and next(folding.readings(View(text)), None) is None


def _hinted(text: str) -> Sequence[str]:
    return _remembered_hints(text) if len(text) <= REMEMBERED_LENGTH else _hints(text)


def _hints(text: str) -> Sequence[str]:
    """The steps that are worth taking on this text: what yields short views first, whole-text ones last."""
    data = text.encode()
    return tuple(names[number] for names, hints in _SETS for number in sorted(hints.Match(data) or ()))


_remembered_hints = lru_cache(REMEMBERED)(_hints)


def _deeper(base: View, room: Room) -> Iterator[View]:
    """One step further: everything that this view's hints promise, as far as there is room."""
    for name in _hinted(base.text):
        for view in _step(base, name, room):
            yield view
            yield from folding.readings(view)


def _step(base: View, name: str, room: Room) -> Iterator[View]:
    if name in _CODECS:
        codec, pattern = _CODECS[name]
        runs = room.chosen(base, name, codecs.runs(codec, pattern, base.text, room.decoded), decoded=True)
        view = assemble(base, name, runs, hidden=True)
        if view:
            yield view
    elif name in _CIPHERS:
        places = ciphers.places(base, name)
        if room.takes(sum(end - start for start, end in places), promising=True):
            view = ciphers.deciphered(base, name, places)
            if view:
                yield view
    else:
        yield from spelling.respelled(base, name, room)
