"""What a model folder says of windows: a glance settles the clear ones, the encoder reads the rest.

The glance is a second, small model in the folder `glance/` of the first. It knows other languages than the encoder and
costs a fifth of it. Where it knows the letters and finds nothing at all, the window is settled; elsewhere the logits
are a weighted mean of both, and the glance weighs more where letters are not ASCII. Without a glance, or where features
are needed of every window, the encoder reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import re2

from sidecar.errors import LayerError, ModelError
from sidecar.layers.artefact import Array, Artefact, Head, Mixture
from sidecar.layers.embedding import Encoder, Network, OnnxNetwork, open_encoder
from sidecar.layers.pieces import FILE, Pieces
from sidecar.layers.windows import Cut, Window, windows
from sidecar.views.folding import folded, unhidden

FOLDER = "glance"
LONGEST = 2048
"""Pieces in one window at most. The most in 12,000 windows of the corpus was 277; a bar of boxes has one for each of
`Cut.characters` and one more; and there are letters that stand for eighteen."""
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
_PARTS = str.maketrans(dict.fromkeys("_-./|+~*=:;,\n", " "))
_WORD = re2.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*\p{Latin}[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*")
_FOREIGN = re2.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class Said:
    """The logits of a window, and its features if the encoder read it."""

    logits: Array
    features: Array | None


class Glance:
    """The small model. It has pieces of its own for the text that a window stands for.

    The encoder's tokenizer drops what shows nothing, and marks of all scripts. The glance is spared what shows nothing,
    too. Marks make the word in many of its languages: a western text that has some, or look-alikes, is read with and
    without, and the worse answer counts; of a text in other letters the western part is read alone. What is written
    Like This or_like_this is also read as it would usually be.
    """

    def __init__(
        self,
        pieces: Callable[[str], tuple[int, ...]],
        network: Network,
        head: Head,
        mixture: Mixture,
        unknown: int,
    ) -> None:
        self._pieces, self._network, self._head = pieces, network, head
        self._unknown = unknown
        self.mixture = mixture

    @classmethod
    def open(cls, artefact: Artefact, mixture: Mixture, threads: int) -> Glance:
        """Load its weights. Raises `ModelError` that names the file."""
        pieces = Pieces.read(artefact.folder / FILE)
        pad = pieces.padding(channels=artefact.manifest.channels)
        return cls(pieces, OnnxNetwork(artefact, pad, threads), artefact.head, mixture, pieces.unknown)

    def read(self, window: Window) -> Window:
        """The window with its pieces. Raises `LayerError("too_long")`."""
        pieces = tuple(self._pieces(text) for text in _readings(window.text))
        if max(map(len, pieces)) > LONGEST:
            raise LayerError("too_long", f"a window of the text has more than {LONGEST} pieces")
        return replace(window, pieces=pieces)

    def knows(self, window: Window) -> bool:
        """Whether it has read so much of the window that it may settle it."""
        return window.pieces[0].count(self._unknown) <= UNKNOWN * len(window.pieces[0])

    def logits(self, windows: Sequence[Window], indirect: Sequence[bool]) -> Array:
        """(windows, outputs), for windows that were read."""
        owners = [number for number, window in enumerate(windows) for _ in window.pieces]
        pieces = [reading for window in windows for reading in window.pieces]
        found = self._head.logits(self._network.features(pieces, [indirect[owner] for owner in owners]))
        worst = {owners[row]: row for row in np.argsort(found[:, self._head.attack], kind="stable")}
        return found[[worst[number] for number in range(len(windows))]]


def _readings(text: str) -> list[str]:
    seen = unhidden(text)
    plain = _usual(_western(seen))
    return [seen, plain] if plain != seen else [seen]


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

    def __init__(self, encoder: Encoder, head: Head, glance: Glance | None = None, *, settles: bool = True) -> None:
        self.encoder, self.head = encoder, head
        self._glance, self._settles = glance, settles

    @classmethod
    def open(cls, artefact: Artefact, threads: int, *, settles: bool = True) -> Scorer:
        """Load the weights; without `settles` every window has features. Raises `ModelError` that names the file."""
        encoder = open_encoder(artefact, threads)
        if (mixture := artefact.manifest.glance) is None:
            return cls(encoder, artefact.head)
        small = Artefact.read(artefact.folder / FOLDER)
        if small.manifest.outputs != artefact.manifest.outputs:
            raise ModelError(f"{small.folder}: has other outputs than the model that it stands before")
        return cls(encoder, artefact.head, Glance.open(small, mixture, threads), settles=settles)

    def windows(self, text: str, cut: Cut) -> list[Window]:
        """The text as this model reads it. Raises `LayerError("too_long")`."""
        found = windows(self.encoder.tokenizer, text, cut)
        return found if self._glance is None else [self._glance.read(window) for window in found]

    def __call__(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        """One answer a window, in order. Raises `ArithmeticError` if a number is not finite."""
        if self._glance is None:
            return self._read(windows, indirect)
        first, mixture = self._glance.logits(windows, indirect), self._glance.mixture
        doubtful = first[:, self.head.attack] >= (mixture.settles if self._settles else -np.inf)
        numbers = [n for n, window in enumerate(windows) if doubtful[n] or not self._glance.knows(window)]
        later = self._read([windows[n] for n in numbers], [indirect[n] for n in numbers])
        second = np.full_like(first, mixture.settled)
        features: list[Array | None] = [None] * len(windows)
        for number, said in zip(numbers, later, strict=True):
            second[number], features[number] = said.logits, said.features
        share, lift = np.array([mixture.weigh(window.text) for window in windows], dtype=np.float32).T[:, :, None]
        both = share * first + (1 - share) * second + lift
        return [Said(row, found) for row, found in zip(both, features, strict=True)]

    def _read(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        if not windows:
            return []
        features = self.encoder.features([window.ids for window in windows], indirect)
        return [Said(*pair) for pair in zip(self.head.logits(features), features, strict=True)]
