"""What a model folder says of windows: a glance settles the clear ones, the encoder reads the rest.

The glance is a second, small model in the folder `glance/` of the first. It knows other languages than the encoder and
costs a fifth of it. Where it finds nothing at all, the window is settled; elsewhere the logits are a weighted mean of
both, and the glance weighs more where letters are not ASCII. Without a glance, or where features are needed of every
window, the encoder reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tokenizers import Tokenizer

from sidecar.errors import LayerError, ModelError
from sidecar.layers.artefact import Array, Artefact, Head, Mixture
from sidecar.layers.embedding import Encoder, OnnxEncoder, open_encoder
from sidecar.layers.windows import Window, batches

FOLDER = "glance"
TOKENS, LONGEST = 2048, 4096
"""Tokens that the glance reads at once, padding included, and at most in one window: `Cut.characters` of an honest text
have fewer, but there are letters that stand for eighteen others."""


@dataclass(frozen=True, slots=True)
class Said:
    """The logits of a window, and its features if the encoder read it."""

    logits: Array
    features: Array | None


class Glance:
    """The small model. It has a tokenizer of its own and reads the text that a window stands for."""

    def __init__(self, encoder: Encoder, head: Head, mixture: Mixture) -> None:
        self._encoder, self._head = encoder, head
        self.mixture = mixture

    def logits(self, windows: Sequence[Window], indirect: Sequence[bool]) -> Array:
        """(windows, outputs). Raises `LayerError("too_long")` for a window of more tokens than any honest text has."""
        read = [replace(window, ids=self._ids(window.text)) for window in windows]
        out = np.empty((len(read), self._head.weights.shape[0]), np.float32)
        for batch in batches(read, TOKENS):  # in its own tokens, which can be many more than the encoder's
            features = self._encoder.features([read[n].ids for n in batch], [indirect[n] for n in batch])
            out[batch] = self._head.logits(features)
        return out

    def _ids(self, text: str) -> tuple[int, ...]:
        """Tokens of one text: `encode_batch` would start threads in a process that workers may be forked from."""
        ids = self._encoder.tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) > LONGEST:
            raise LayerError("too_long", f"a window of the text has more than {LONGEST} tokens")
        return tuple(ids)


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
        glance = Glance(OnnxEncoder(small, threads), small.head, mixture)
        return cls(encoder, artefact.head, glance, settles=settles)

    @property
    def tokenizer(self) -> Tokenizer:
        """Cuts text into the tokens of windows."""
        return self.encoder.tokenizer

    def __call__(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        """One answer a window, in order. Raises `ArithmeticError` if a number is not finite."""
        if self._glance is None:
            return self._read(windows, indirect)
        first, mixture = self._glance.logits(windows, indirect), self._glance.mixture
        doubtful = first[:, self.head.attack] >= (mixture.settles if self._settles else -np.inf)
        numbers = np.flatnonzero(doubtful).tolist()
        later = self._read([windows[n] for n in numbers], [indirect[n] for n in numbers])
        second = np.full_like(first, mixture.settled)
        features: list[Array | None] = [None] * len(windows)
        for number, said in zip(numbers, later, strict=True):
            second[number], features[number] = said.logits, said.features
        share = np.array([[mixture.share_of(window.text)] for window in windows], dtype=np.float32)
        both = share * first + (1 - share) * second
        return [Said(row, found) for row, found in zip(both, features, strict=True)]

    def _read(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        if not windows:
            return []
        features = self.encoder.features([window.ids for window in windows], indirect)
        return [Said(*pair) for pair in zip(self.head.logits(features), features, strict=True)]
