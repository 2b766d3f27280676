"""The network: the lowest layers of multilingual-e5-small, two poolings and one linear head.

The features of a window are the mean and the maximum over its tokens, concatenated. The head uses both; the mean alone
is the embedding for `similar_to` rules. Token types say who wrote the text: 0 the user, 1 a third party whose text the
assistant only reads, 2 the application; they are added after the frozen layers, so that no gradient passes through
these. Embeddings and the lowest layers stay frozen: their knowledge of a hundred languages is the reason to use this
base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from training.base import Base
from training.rows import OUTPUTS

WIDTH, HEADS, INNER = 384, 12, 1536
LAYERS, FROZEN = 6, 2
"""Layers of the base that are kept, and how many of them do not learn."""
PLACES = 128
"""Tokens of the longest window, special tokens included."""
TYPES = 3
FEATURES = 2 * WIDTH
SIMILARITY = (0, WIDTH)
EPSILON = 1e-12


class Dropout(nn.Module):
    """Drops channels of a whole window: random numbers per token would take an eighth of the training time."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(windows, tokens, width) -> the same."""
        if not self.training or not self.chance:
            return hidden
        stay = torch.empty((hidden.shape[0], 1, hidden.shape[2]), dtype=hidden.dtype).bernoulli_(1 - self.chance)
        return hidden * stay / (1 - self.chance)


class Layer(nn.Module):
    """One post-norm BERT layer: attention and feed-forward, each with residual and normalisation."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norm, self.norm_last = nn.LayerNorm(WIDTH, eps=EPSILON), nn.LayerNorm(WIDTH, eps=EPSILON)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """(windows, tokens, width) and the attention bias -> (windows, tokens, width)."""
        count, tokens, _ = hidden.shape

        def split(states: torch.Tensor) -> torch.Tensor:
            return states.view(count, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)

        query, key, value = (split(part) for part in self.all(hidden).split(WIDTH, dim=-1))
        scores = torch.matmul(query * (WIDTH // HEADS) ** -0.5, key.transpose(-1, -2)) + bias
        mixed = torch.matmul(torch.softmax(scores, dim=-1, dtype=scores.dtype), value)
        hidden = self.norm(hidden + self.dropout(self.out(mixed.transpose(1, 2).reshape(count, tokens, WIDTH))))
        return self.norm_last(hidden + self.dropout(self.down(functional.gelu(self.up(hidden)))))


class Network(nn.Module):
    """Windows in, logits out."""

    def __init__(self, words: int, layers: int = LAYERS, frozen: int = FROZEN, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.places, self.types = nn.Embedding(PLACES, WIDTH), nn.Embedding(TYPES, WIDTH)
        self.frozen = frozen
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(layers))
        self.head, self.dropout = nn.Linear(FEATURES, len(OUTPUTS)), nn.Dropout(dropout)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        nn.init.zeros_(self.types.weight)
        for part in (self.words, self.places, self.norm, *self.layers[:frozen]):
            part.requires_grad_(requires_grad=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (windows, outputs) and features (windows, 2 x width)."""
        hidden = self.features(ids, mask, types)
        return self.head(self.dropout(hidden)), hidden

    def features(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """(windows, 2 x width)."""
        hidden = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        bias = torch.zeros(mask.shape, dtype=hidden.dtype).masked_fill_(mask == 0, -math.inf)[:, None, None, :]
        if torch.is_autocast_enabled("cpu"):
            bias = bias.to(torch.get_autocast_dtype("cpu"))
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            for layer in self.layers[: self.frozen]:
                hidden = layer(hidden, bias)
        hidden = hidden + self.types(types)
        for layer in self.layers[self.frozen :]:
            hidden = layer(hidden, bias)
        return pooled(hidden.float(), mask)

    def train(self, mode: bool = True) -> Network:
        """The frozen layers always stay in evaluation mode, without dropout."""
        super().train(mode)
        self.layers[: self.frozen].eval()
        return self

    def groups(self, rate: float) -> list[dict[str, object]]:
        """Parameter groups for the optimiser: the head learns five times as fast as the rest."""
        head = list(self.head.parameters())
        head_ids = {id(parameter) for parameter in head}
        body = [p for p in self.parameters() if p.requires_grad and id(p) not in head_ids]
        return [{"params": body, "lr": rate}, {"params": head, "lr": 5 * rate}]


def pooled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean and maximum over the unmasked tokens."""
    there = mask.unsqueeze(-1).to(hidden.dtype)
    highest = (hidden * there + (there - 1) * 1e4).amax(dim=1)
    return torch.cat([(hidden * there).sum(1) / there.sum(1), highest], dim=1)


def begin(base: Base, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Network:
    """The untrained network, initialised from these pieces of the base."""
    network = Network(len(numbers))
    tensors = {
        "words.weight": base.tensor("emb.word").reshape(-1, WIDTH)[numbers],
        "places.weight": base.tensor("emb.pos").reshape(-1, WIDTH)[:PLACES] + base.tensor("emb.type")[:WIDTH],
        "norm.weight": base.tensor("emb.ln.w"),
        "norm.bias": base.tensor("emb.ln.b"),
    }
    for number in range(len(network.layers)):
        tensors.update(_layer(base, number))
    state = network.state_dict()
    state.update({name: torch.from_numpy(values).view_as(state[name]) for name, values in tensors.items()})
    network.load_state_dict(state)
    return network


def _layer(base: Base, number: int) -> Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """The tensors of one layer under our names."""
    tensors = {}
    for target, kind in (("weight", "w"), ("bias", "b")):
        parts = [base.tensor(f"l{number}.{name}.{kind}") for name in "qkv"]
        tensors[f"layers.{number}.all.{target}"] = np.concatenate(parts)
        names = {"out": "ao", "up": "fi", "down": "fo", "norm": "aln", "norm_last": "oln"}
        tensors |= {
            f"layers.{number}.{our}.{target}": base.tensor(f"l{number}.{their}.{kind}") for our, their in names.items()
        }
    return tensors


def half() -> torch.autocast:
    """Half precision where the processor supports it: elsewhere it is emulated, ten times slower than 32-bit floats."""
    can = torch.cpu.get_capabilities()
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(can.get("avx512_bf16") or can.get("amx_bf16")))


def batch(windows: Sequence[Sequence[int]], types: Sequence[int]) -> list[torch.Tensor]:
    """Ids, mask and types of windows without their special tokens, padded to the longest."""
    length = max(map(len, windows)) + 2
    ids, mask = torch.ones((len(windows), length), dtype=torch.int64), torch.zeros((len(windows), length))
    for row, window in enumerate(windows):
        ids[row, : len(window) + 2] = torch.tensor([0, *window, 2])
        mask[row, : len(window) + 2] = 1.0
    return [ids, mask, torch.tensor(types)[:, None].expand(-1, length)]
