"""What a model folder says of windows: a glance settles the clear ones, the encoder reads the rest.

The glance is a second, small model in the folder `glance/` of the first. It knows other languages than the encoder and
costs a fifth of it. Where it knows the letters and finds nothing at all, the window is settled; elsewhere the logits
are a weighted mean of both, and the glance weighs more where letters are not ASCII. Without a glance, or where features
are needed of every window, the encoder reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import re2

from sidecar.errors import ModelError
from sidecar.layers.artefact import Array, Artefact, Calibration, Head, Mixture
from sidecar.layers.embedding import Encoder, Network, OnnxNetwork, open_encoder
from sidecar.layers.pieces import FILE, Pieces
from sidecar.layers.prose import is_prose
from sidecar.layers.windows import Cut, Window, stream, windows
from sidecar.views.folding import folded, unhidden

FOLDER = "glance"
UNKNOWN = 0.2
"""Share of pieces that the glance does not know from which it settles nothing: a word of Bengali is one. All windows of
Bengali, Tamil and Hindi in the held-back rows have more, one in two of Urdu, hardly any of English or Chinese."""
WESTERN = 0.9
"""Share of ASCII letters from which a text without accents and look-alikes is what a reader would take it for; of a
Russian one it is about 0.7, of a Greek one 0.8."""
ALONE = 24
"""Western letters in a text of others from which they are read alone, too: behind a line of Chinese the glance took an
English attack for harmless."""
FEW = 3
"""Capitals, or signs that part words, that any text may have."""
CAPITALS = 0.12
"""Share of capitals among letters, which the glance minds: a harmless row of the corpus has 0.03 in English and 0.07 in
German (medians; one in 25 has more than this), Words Like These 0.24."""
NOTHING = -20.0
"""The logits of a window that says nothing."""
_PARTS = str.maketrans(dict.fromkeys("_-./|+~*=:;,\n", " "))
_WORD = re2.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*\p{Latin}[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*")
_FOREIGN = re2.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What the first stage says of a window; no logits if it has not read it, because there is none or no need.

    `known`: it may settle the window by itself, if it is not suspicious (`Scorer.settles`).
    """

    logits: Array | None
    known: bool
    suspicion: float


@dataclass(frozen=True, slots=True)
class Said:
    """The logits of a window, its features if the encoder read it, and how many windows that were to the encoder."""

    logits: Array
    features: Array | None = None
    cost: int = 0


class Vocabulary(Protocol):
    """What the glance needs of `Pieces`."""

    @property
    def unknown(self) -> int: ...  # noqa: D102 - see `Pieces`
    def __call__(self, text: str) -> tuple[int, ...]: ...  # noqa: D102
    def windows(self, text: str, size: int) -> Iterator[Window]: ...  # noqa: D102


class Glance:
    """The small model. It cuts a text by pieces of its own.

    The encoder's tokenizer drops what shows nothing, and marks of all scripts. The glance is spared what shows nothing,
    too. Marks make the word in many of its languages: a western text that has some, or look-alikes, is read with and
    without, and the worse answer counts; of a text in other letters the western part is read alone. What is written
    Like This or_like_this is also read as it would usually be.
    """

    def __init__(self, pieces: Vocabulary, network: Network, head: Head, mixture: Mixture, size: int = 126) -> None:
        self._pieces, self._network, self._head = pieces, network, head
        self._size = size
        self.mixture = mixture

    @classmethod
    def open(cls, artefact: Artefact, mixture: Mixture, threads: int) -> Glance:
        """Load its weights. Raises `ModelError` that names the file."""
        pieces = Pieces.read(artefact.folder / FILE)
        pad = pieces.padding(channels=artefact.manifest.channels)
        network = OnnxNetwork(artefact, pad, threads)
        return cls(pieces, network, artefact.head, mixture, artefact.manifest.window)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in windows of its pieces, one by one."""
        return self._pieces.windows(text, self._size)

    def knows(self, window: Window) -> bool:
        """Whether it has read so much of the window that it may settle it."""
        return window.ids.count(self._pieces.unknown) <= UNKNOWN * len(window.ids)

    def logits(self, window: Window, *, indirect: bool) -> Array:
        """(outputs): the worst of its readings."""
        pieces = [window.ids, *map(self._pieces, other_readings(window.text))]
        found = self._head.logits(self._network.features(pieces, [indirect] * len(pieces)))
        return np.asarray(found[found[:, self._head.attack].argmax()])


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
        glance: Glance | None = None,
        *,
        cut: Cut | None = None,
        settles: bool = True,
        readable: Callable[[str], bool] = lambda _: True,
        calibration: Calibration | None = None,
    ) -> None:
        """`readable`: what is worth reading at all. `calibration`: that of the texts whose windows are read."""
        self.encoder, self.head, self._readable = encoder, head, readable
        self._cut = cut or Cut()
        self._glance, self._settles = glance, settles
        self._calibration = calibration or Calibration()

    @classmethod
    def open(cls, artefact: Artefact, threads: int, *, settles: bool = True) -> Scorer:
        """Load the weights; without `settles` every window has features. Raises `ModelError` that names the file."""
        encoder, manifest = open_encoder(artefact, threads), artefact.manifest
        cut, glance = Cut(manifest.window, manifest.overlap), None
        if manifest.glance is not None:
            small = Artefact.read(artefact.folder / FOLDER)
            if small.manifest.outputs != manifest.outputs:
                raise ModelError(f"{small.folder}: has other outputs than the model that it stands before")
            glance = Glance.open(small, manifest.glance, threads)
        known = manifest.calibration
        return cls(encoder, artefact.head, glance, cut=cut, settles=settles, readable=is_prose, calibration=known)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in the windows of the first stage, one by one."""
        return stream(self.encoder.tokenizer, text, self._cut) if self._glance is None else self._glance.windows(text)

    def glimpse(self, window: Window, *, indirect: bool) -> Glimpse:
        """What the first stage says. A window that is not readable is settled: nothing in it can be judged."""
        if not self._readable(window.text):
            return Glimpse(None, known=True, suspicion=-np.inf)
        if self._glance is None:
            return Glimpse(None, known=False, suspicion=0.0)
        first = self._glance.logits(window, indirect=indirect)
        return Glimpse(first, self._settles and self._glance.knows(window), float(first[self.head.attack]))

    def settles(self, glimpse: Glimpse, windows: int = 1) -> bool:
        """Whether the second stage need not read a window of a text that has so many."""
        if not glimpse.known or self._glance is None:
            return glimpse.known
        mixture = self._glance.mixture
        limit = mixture.settles + mixture.settles_per_log_windows * self._calibration.log_windows(windows)
        return glimpse.suspicion < limit

    def settled(self, window: Window, glimpse: Glimpse) -> Said:
        """What is said of a window that the first stage has settled."""
        return Said(self._both(window, glimpse, None))

    def shelved(self, window: Window) -> Window:
        """The window with no more than the second stage needs of it."""
        return window if self._glance is None else replace(window, ids=())

    def read(self, window: Window, glimpse: Glimpse, *, indirect: bool) -> Said:
        """What both stages say. Raises `ArithmeticError` if a number is not finite."""
        cut = [window.ids] if self._glance is None else [w.ids for w in self._encoded(window.text)]
        if not cut:
            return Said(self._both(window, glimpse, None))
        features = self.encoder.features(cut, [indirect] * len(cut))
        found = self.head.logits(features)
        worst = int(found[:, self.head.attack].argmax())
        return Said(self._both(window, glimpse, found[worst]), features[worst], len(cut))

    def __call__(self, found: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        """Both stages, one answer a window, in order: for measurements."""
        return [self._one(window, indirect=read) for window, read in zip(found, indirect, strict=True)]

    def _one(self, window: Window, *, indirect: bool) -> Said:
        glimpse = self.glimpse(window, indirect=indirect)
        if not self.settles(glimpse):
            return self.read(window, glimpse, indirect=indirect)
        return self.settled(window, glimpse)

    def _encoded(self, text: str) -> list[Window]:
        return windows(self.encoder.tokenizer, text, self._cut)

    def _both(self, window: Window, glimpse: Glimpse, second: Array | None) -> Array:
        """The weighted mean of both stages."""
        if glimpse.logits is None or self._glance is None:
            return np.full(len(self.head.outputs), NOTHING, np.float32) if second is None else second
        first, mixture = glimpse.logits, self._glance.mixture
        last = np.full(len(self.head.outputs), mixture.settled, np.float32) if second is None else second
        share, lift = mixture.weigh(window.text)
        return np.asarray(share * first + (1 - share) * last + lift, dtype=np.float32)
