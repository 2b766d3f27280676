"""Cuts rows into the windows that are learnt from, as they are served.

A text of one window is learnt from whole. Of a longer one a single window is taken: where the attack is known to stand,
or what the network so far takes for the worst, which is a loss on the highest window at the price of one. Texts are
begun at another place each time, since the borders of windows fall anywhere in what people send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from sidecar.detectors.semantic.sentencepiece import Pieces
from sidecar.detectors.semantic.windows import Window
from training.rows import OUTPUTS, Row

SIZE = 126
"""Pieces of a window."""
BAG, CALM_BAG = 5, 5
"""Windows of a long attack, and of a long harmless text, that are looked at to find the one to learn from."""
SMOOTH = 0.02
"""How sure the goal is not: of a label that is there, and of one that is not."""
FINE = 0.3
"""Weight of the single labels beside that of attack or not."""
HOLDS = 0.7
"""Share of the attack that a window must hold to be learnt from as one, of what the best window holds."""

Scores = Callable[[Sequence[tuple[Window, int]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Example:
    """A window to learn from: its pieces, who wrote it, what the outputs should say and how much each counts."""

    ids: tuple[int, ...]
    channel: int
    goal: tuple[float, ...]
    known: tuple[float, ...]


def examples(rows: Sequence[Row], pieces: Pieces, scores: Scores, rng: Random) -> list[Example]:
    """One example of each row, now and then two. `scores`: the attack logits of windows and their channels."""
    chosen: list[Example] = []
    unsure: list[tuple[Row, list[Window]]] = []
    for row in rows:
        windows = list(pieces.windows(row.text, SIZE))
        if len(windows) > 1 and rng.random() < 0.5:
            windows = _begun_later(row.text, windows[0], pieces, rng) or windows
        if len(windows) < 2:
            chosen.extend(example(row, window) for window in windows)
        elif row.attack and row.place:
            chosen.extend(_placed(row, row.place, windows, rng))
        else:
            unsure.append((row, _bag(row, windows, rng)))
    return [*chosen, *_worst(unsure, scores, rng)]


def example(row: Row, window: Window) -> Example:
    """What is to be learnt from a window of this row."""
    names = ("attack" if row.attack else "", *row.labels)
    goal = tuple(1 - SMOOTH if name in names else SMOOTH for name in OUTPUTS)
    return Example(window.ids, row.channel, goal, (1.0, *([FINE if row.fine else 0.0] * (len(OUTPUTS) - 1))))


def spread(windows: Sequence[Window], most: int) -> list[Window]:
    """At most so many windows, evenly over the text, first and last included."""
    if len(windows) <= most:
        return list(windows)
    if most == 1:
        return [windows[0]]
    return [windows[round(i * (len(windows) - 1) / (most - 1))] for i in range(most)]


def _begun_later(text: str, first: Window, pieces: Pieces, rng: Random) -> list[Window]:
    """The text in windows with other borders: the first ends somewhere in its middle. None if no word ends there."""
    at = text.find(" ", first.start + rng.randrange(max(1, first.end - first.start)))
    if at < 0:
        return []
    shifted = [replace(w, start=w.start + at, end=w.end + at) for w in pieces.windows(text[at:], SIZE)]
    return [*pieces.windows(text[:at], SIZE), *shifted]


def _placed(row: Row, place: tuple[int, int], windows: Sequence[Window], rng: Random) -> Iterator[Example]:
    """A window that holds the attack, and at times one that holds none of it and is harmless therefore."""
    shared = [min(w.end, place[1]) - max(w.start, place[0]) for w in windows]
    yield example(row, rng.choice([w for w, n in zip(windows, shared, strict=True) if n >= HOLDS * max(shared)]))
    calm = [w for w, n in zip(windows, shared, strict=True) if n <= 0]
    if calm and row.own and rng.random() < 0.3:
        yield example(replace(row, labels=frozenset()), rng.choice(calm))


def _bag(row: Row, windows: list[Window], rng: Random) -> list[Window]:
    return spread(windows, BAG) if row.attack else rng.sample(windows, min(CALM_BAG, len(windows)))


def _worst(unsure: Sequence[tuple[Row, Sequence[Window]]], scores: Scores, rng: Random) -> Iterator[Example]:
    """The worst window of each; of a harmless text at times another, so that not only doubtful ones are seen."""
    logits = iter(scores([(window, row.channel) for row, windows in unsure for window in windows]))
    for row, windows in unsure:
        worst = max((next(logits), at) for at in range(len(windows)))[1]
        yield example(row, windows[worst] if row.attack or rng.random() < 0.8 else rng.choice(windows))
