"""Cuts rows into training windows, as texts are cut when served.

A text of one window is used whole. Of a longer one a single window is used: where the attack is known to be, or the one
that the network so far scores worst, which gives a loss on the maximum at the cost of one window. Each text starts at a
random offset, since window borders fall anywhere in real texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from sidecar.detectors.semantic.windows import Window
from training.rows import OUTPUTS, Row

SIZE = 126
"""Pieces of a window."""
BAG, CALM_BAG = 5, 5
"""Windows of a long attack, and of a long harmless text, that are scored to select the one to learn from."""
SMOOTH = 0.02
"""Label smoothing: uncertainty of a positive and of a negative target."""
FINE = 0.3
"""Loss weight of the single labels relative to attack or not."""
HOLDS = 0.7
"""Share of the attack that a window must contain to be a positive example, relative to the best window."""

Scores = Callable[[Sequence[tuple[Window, int]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Example:
    """A training window: its pieces, channel, targets and the loss weight of each target."""

    ids: tuple[int, ...]
    channel: int
    goal: tuple[float, ...]
    weights: tuple[float, ...]


def examples(rows: Sequence[Row], pieces: SentencePieceTokenizer, scores: Scores, rng: Random) -> list[Example]:
    """One or sometimes two examples of each row. `scores`: the attack logits of windows and their channels."""
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
    """The training example of a window of this row."""
    names = ("attack" if row.attack else "", *row.labels)
    goal = tuple(1 - SMOOTH if name in names else SMOOTH for name in OUTPUTS)
    return Example(window.ids, row.channel, goal, (1.0, *([FINE if row.fine else 0.0] * (len(OUTPUTS) - 1))))


def spread(windows: Sequence[Window], most: int) -> list[Window]:
    """At most that many windows, evenly over the text, first and last included."""
    if len(windows) <= most:
        return list(windows)
    if most == 1:
        return [windows[0]]
    return [windows[round(i * (len(windows) - 1) / (most - 1))] for i in range(most)]


def _begun_later(text: str, first: Window, pieces: SentencePieceTokenizer, rng: Random) -> list[Window]:
    """The text in windows with shifted borders: the first starts in its middle. Empty if no word starts there."""
    at = text.find(" ", first.start + rng.randrange(max(1, first.end - first.start)))
    if at < 0:
        return []
    shifted = [replace(w, start=w.start + at, end=w.end + at) for w in pieces.windows(text[at:], SIZE)]
    return [*pieces.windows(text[:at], SIZE), *shifted]


def _placed(row: Row, place: tuple[int, int], windows: Sequence[Window], rng: Random) -> Iterator[Example]:
    """A window that contains the attack, and sometimes a benign one that contains none of it."""
    shared = [min(w.end, place[1]) - max(w.start, place[0]) for w in windows]
    yield example(row, rng.choice([w for w, n in zip(windows, shared, strict=True) if n >= HOLDS * max(shared)]))
    calm = [w for w, n in zip(windows, shared, strict=True) if n <= 0]
    if calm and row.from_corpus and rng.random() < 0.3:
        yield example(replace(row, labels=frozenset()), rng.choice(calm))


def _bag(row: Row, windows: list[Window], rng: Random) -> list[Window]:
    return spread(windows, BAG) if row.attack else rng.sample(windows, min(CALM_BAG, len(windows)))


def _worst(unsure: Sequence[tuple[Row, Sequence[Window]]], scores: Scores, rng: Random) -> Iterator[Example]:
    """The worst window of each; of a benign text sometimes another, so that not only unsure ones are learnt."""
    logits = iter(scores([(window, row.channel) for row, windows in unsure for window in windows]))
    for row, windows in unsure:
        worst = max((next(logits), at) for at in range(len(windows)))[1]
        yield example(row, windows[worst] if row.attack or rng.random() < 0.8 else rng.choice(windows))
