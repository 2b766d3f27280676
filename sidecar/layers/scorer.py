"""What a model folder says of windows: a glance settles the clear ones, the encoder reads the rest.

The glance is a second, small model in the folder `glance/` of the first. It knows other languages than the encoder and
costs a fifth of it. Where it finds nothing at all, the window is settled; elsewhere the logits are a weighted mean of
both, and the glance weighs more where letters are not ASCII. Without a glance, or where features are needed of every
window, the encoder reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from sidecar.errors import ModelError
from sidecar.layers.artefact import Array, Artefact, Head
from sidecar.layers.artefact import Glance as Described
from sidecar.layers.embedding import Encoder, OnnxEncoder, open_encoder
from sidecar.layers.windows import Window

FOLDER = "glance"


@dataclass(frozen=True, slots=True)
class Said:
    """The logits of a window, and its features if the encoder read it."""

    logits: Array
    features: Array | None


class Glance:
    """The small model. It has a tokenizer of its own and reads the text that a window stands for."""

    def __init__(self, encoder: Encoder, head: Head, described: Described) -> None:
        self._encoder, self._head = encoder, head
        self.described = described

    def logits(self, windows: Sequence[Window], indirect: Sequence[bool]) -> Array:
        """(windows, outputs)."""
        # One by one: `encode_batch` would start threads, and workers are forked from a process that may have them.
        encode = self._encoder.tokenizer.encode
        ids = [encode(window.text, add_special_tokens=False).ids for window in windows]
        return self._head.logits(self._encoder.features(ids, indirect))


class Scorer:
    """A model folder, opened. Used by one thread at a time."""

    def __init__(self, encoder: Encoder, head: Head, glance: Glance | None = None) -> None:
        self.encoder, self.head = encoder, head
        self._glance = glance
        self.settles = True
        """Whether the glance may settle a window; if not, every window has features."""

    @classmethod
    def open(cls, artefact: Artefact, threads: int) -> Scorer:
        """Load the weights. Raises `ModelError` that names the file."""
        encoder = open_encoder(artefact, threads)
        if (described := artefact.manifest.glance) is None:
            return cls(encoder, artefact.head)
        small = Artefact.read(artefact.folder / FOLDER)
        if small.manifest.outputs != artefact.manifest.outputs:
            raise ModelError(f"{small.folder}: has other outputs than the model that it stands before")
        return cls(encoder, artefact.head, Glance(OnnxEncoder(small, threads), small.head, described))

    @property
    def tokenizer(self) -> Tokenizer:
        """Cuts text into the tokens of windows."""
        return self.encoder.tokenizer

    def __call__(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        """One answer a window, in order. Raises `ArithmeticError` if a number is not finite."""
        if self._glance is None:
            return self._read(windows, indirect)
        first, described = self._glance.logits(windows, indirect), self._glance.described
        open_ = first[:, self.head.attack] >= (described.settles if self.settles else -np.inf)
        numbers = np.flatnonzero(open_).tolist()
        later = self._read([windows[n] for n in numbers], [indirect[n] for n in numbers])
        second = np.full_like(first, described.settled)
        features: list[Array | None] = [None] * len(windows)
        for number, said in zip(numbers, later, strict=True):
            second[number], features[number] = said.logits, said.features
        share = np.array([[described.share_of(window.text)] for window in windows], dtype=np.float32)
        both = share * first + (1 - share) * second
        return [Said(row, found) for row, found in zip(both, features, strict=True)]

    def _read(self, windows: Sequence[Window], indirect: Sequence[bool]) -> list[Said]:
        if not windows:
            return []
        features = self.encoder.features([window.ids for window in windows], indirect)
        return [Said(*pair) for pair in zip(self.head.logits(features), features, strict=True)]
