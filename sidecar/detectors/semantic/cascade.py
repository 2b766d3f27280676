"""What a model folder says of windows: a first stage settles the clear ones, the second reads the rest.

The first stage is a small network of n-grams that has learnt what the second would say, and costs a fortieth of it.
Where it knows the letters and finds nothing, the window is settled as harmless. Both are spared what shows nothing, and
read a disguised window also as a reader would take it. Without a first stage, or where features are needed of every
window, the second reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import re2

from sidecar.detectors.semantic.artifact import Array, Artefact, Head
from sidecar.detectors.semantic.encoder import Encoder, OnnxEncoder, Session, open_encoder
from sidecar.detectors.semantic.prose import is_prose
from sidecar.detectors.semantic.windows import Window
from sidecar.normalization.folding import folded, unhidden

FILE = "first.onnx"
UNKNOWN = 0.2
"""Share of pieces that the vocabulary does not know from which the first stage settles nothing."""
WESTERN = 0.9
"""Share of ASCII letters from which a text without accents and look-alikes is what a reader would take it for; of a
Russian one it is about 0.7, of a Greek one 0.8."""
ALONE = 24
"""Western letters in a text of others from which they are read alone, too."""
FEW = 3
"""Capitals, or signs that part words, that any text may have."""
CAPITALS = 0.12
"""Share of capitals among letters: a harmless row of the corpus has 0.03 in English and 0.07 in German (medians; one in
25 has more than this), Words Like These 0.24."""
NOTHING = -20.0
"""The logits of a window that says nothing."""
_PARTS = str.maketrans(dict.fromkeys("_-./|+~*=:;,\n", " "))
_WORD = re2.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*\p{Latin}[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*")
_FOREIGN = re2.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What the first stage says of a window: how suspicious it is, and whether it may settle it if it is not."""

    suspicion: float
    known: bool


@dataclass(frozen=True, slots=True)
class Said:
    """The logits of a window, its features if the second stage read it, and how many readings that took."""

    logits: Array
    features: Array | None = None
    cost: int = 0


class First(Protocol):
    """A window of pieces, and who wrote it -> (1, 1): the attack logit."""

    def __call__(self, window: Sequence[int], channel: int) -> Array: ...  # noqa: D102


def other_readings(text: str) -> list[str]:
    """How a text may be read beside what it shows: at most one other way."""
    seen = unhidden(text)
    plain = _usual(_western(seen))
    return [plain] if plain != seen else []


def _western(text: str) -> str:
    """A western text without accents and look-alikes, or the western part of another, if it has one."""
    if text.isascii():
        return text
    plain = folded(text)
    return plain if _is_western(plain) else _western_part(text) or text


def _usual(text: str) -> str:
    """Small letters if there are more capitals than texts have, and spaces if something else parts the words."""
    if sum(map(str.isupper, text)) > max(FEW, CAPITALS * sum(map(str.isalpha, text))):
        text = text.lower()
    parted = text.translate(_PARTS)
    return parted if parted.count(" ") > max(FEW, 3 * text.count(" ")) else text


def _western_part(text: str) -> str:
    """What a text in other letters has of ASCII, once Latin words are plain; nothing if that is a name or two."""
    plain = _WORD.sub(lambda word: folded(word[0]), text)
    part = _FOREIGN.sub(" ", plain)
    return part if sum(map(str.isalpha, part)) >= ALONE else ""


def _is_western(text: str) -> bool:
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    return sum(map(str.isascii, letters)) >= WESTERN * len(letters)


class Scorer:
    """A model folder, opened. Used by one thread at a time."""

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        first: First | None = None,
        *,
        settles: float = NOTHING,
        unknown: int = -1,
        readable: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """The limit of the first stage, the piece that it does not know, and what is worth reading at all."""
        self.encoder, self.head = encoder, head
        self._first, self._settles, self._unknown = first, settles, unknown
        self._readable = readable

    @classmethod
    def open(cls, artefact: Artefact, threads: int, *, settles: bool = True) -> Scorer:
        """Load the weights; without `settles` every window has features. Raises `ModelError` that names the file."""
        encoder, limit = open_encoder(artefact, threads), artefact.manifest.settles
        if not (settles and limit is not None and isinstance(encoder, OnnxEncoder)):
            return cls(encoder, artefact.head, readable=is_prose)
        first = Session(artefact.folder / FILE, "logit", encoder.pieces, threads)
        unknown = encoder.pieces.unknown
        return cls(encoder, artefact.head, first, settles=limit, unknown=unknown, readable=is_prose)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in windows, one by one."""
        return self.encoder.windows(text)

    def around(self, text: str, window: Window) -> list[Window]:
        """The window with two other borders: moved back and on by a quarter, or shorter where the text ends."""
        length = window.end - window.start
        move, short = length // 4, length * 3 // 5
        before = (window.start - move, window.end - move) if window.start >= move else (0, window.start + short)
        behind = (window.start + move, window.end + move)
        if behind[1] > len(text):
            behind = (window.end - short, window.end)
        found = [next(self.encoder.windows(text[start:end]), None) for start, end in (before, behind)]
        return [one for one in found if one is not None and one.ids != window.ids]

    def glimpse(self, window: Window, channel: int) -> Glimpse:
        """What the first stage says. A window that is not readable is settled: nothing in it can be judged."""
        if not self._readable(window.text):
            return Glimpse(NOTHING, known=True)
        if self._first is None:
            return Glimpse(0.0, known=False)
        found = [float(self._first(ids, channel)[0, 0]) for ids in self._readings(window)]
        return Glimpse(max(found), window.ids.count(self._unknown) <= UNKNOWN * len(window.ids))

    def settles(self, glimpse: Glimpse) -> bool:
        """Whether the second stage need not read the window."""
        return glimpse.known and (self._first is None or glimpse.suspicion < self._settles)

    def settled(self, glimpse: Glimpse) -> Said:
        """What is said of a window that the first stage has settled."""
        logits = np.full(len(self.head.outputs), NOTHING, np.float32)
        logits[self.head.attack] = min(glimpse.suspicion, self._settles)
        return Said(logits)

    def read(self, window: Window, channel: int) -> Said:
        """What the second stage says: the worst of the window's readings.

        Raises `ArithmeticError` if a number is not finite.
        """
        readings = self._readings(window)
        features = self.encoder.features(readings, [channel] * len(readings))
        found = self.head.logits(features)
        worst = int(found[:, self.head.attack].argmax())
        return Said(found[worst], features[worst], len(readings))

    def _readings(self, window: Window) -> list[tuple[int, ...]]:
        """The pieces of the window, and of what a reader may take it for if that is something else."""
        plain = (next(self.encoder.windows(text), None) for text in other_readings(window.text))
        return [window.ids, *(one.ids for one in plain if one is not None)]
