"""The first stage of the cascade: a small n-gram network that reads every window and decides the clear ones.

Its embeddings are the principal components of the base's word vectors, so it covers the same languages; n-gram layers
look at runs of two, three and five pieces, and the maximum and mean of each go through one hidden layer. It is
distilled from the second stage's logits (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015), not
trained on labels: it only has to predict where the second stage would find nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from random import Random

import click
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from training.network import TYPES, batch

WIDTH, GRAMS, CHANNELS, HIDDEN = 64, (1, 2, 3, 5), 112, 128
ROUNDS, TOKENS, RATE = 6, 16_384, 2e-3
NEAR = 4.0
"""The second stage's logits are clipped to this range: greater certainty is of no use here."""
WEIGHT = 3.0
"""Maximum loss weight for predicting benign where the second stage does not."""

Windows = Sequence[tuple[Sequence[int], int]]


class FirstStage(nn.Module):
    """Windows in, one attack logit each."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(words, WIDTH), nn.Embedding(TYPES, HIDDEN)
        self.grams = nn.ModuleList(nn.Linear(size * WIDTH, CHANNELS) for size in GRAMS)
        self.hidden = nn.Linear(2 * len(GRAMS) * CHANNELS, HIDDEN)
        self.last, self.dropout = nn.Linear(HIDDEN, 1), nn.Dropout(0.1)
        nn.init.zeros_(self.types.weight)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """(windows)."""
        return self.of(self.words(ids), mask, types)

    def of(self, vectors: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """The same from embedded pieces: (windows, pieces, width)."""
        there, features = mask.unsqueeze(-1).to(vectors.dtype), []
        vectors = vectors * there
        for size, layer in zip(GRAMS, self.grams, strict=True):
            padded = functional.pad(vectors, (0, 0, (size - 1) // 2, size // 2))
            grams = torch.cat([padded[:, at : at + vectors.shape[1]] for at in range(size)], dim=-1)
            channels = functional.relu(layer(grams)) * there
            features += [channels.amax(dim=1), channels.sum(dim=1) / there.sum(dim=1)]
        inner = functional.relu(self.hidden(self.dropout(torch.cat(features, dim=-1))) + self.types(types[:, 0]))
        return self.last(self.dropout(inner)).squeeze(-1)


def begin(words: torch.Tensor) -> FirstStage:
    """An initial first stage: its embeddings are the principal components of these vectors, with unit variance."""
    model = FirstStage(len(words))
    centred = words - words.mean(0)
    parts = torch.linalg.eigh(centred.T @ centred / len(centred)).eigenvectors[:, -WIDTH:]
    with torch.no_grad():
        components = centred @ parts
        model.words.weight.copy_(components / components.std())
    return model


def train(
    model: FirstStage, windows: Windows, logits: np.ndarray[tuple[int], np.dtype[np.float32]], seed: int = 7
) -> FirstStage:
    """Train the first stage for `ROUNDS` epochs on these windows and the second stage's logits."""
    torch.manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    groups = _grouped([len(ids) for ids, _ in windows])
    rng, began, losses, steps = Random(seed), time.monotonic(), deque([0.0], maxlen=200), 0
    goal = torch.from_numpy(np.clip(logits, -NEAR, NEAR))
    model.train()
    for number in range(ROUNDS):
        rng.shuffle(groups)
        for group in groups:
            share = steps / (ROUNDS * len(groups))
            for part in optimiser.param_groups:
                part["lr"] = RATE * min(1.0, share / 0.03 + 0.02) * max(0.02, 1 - share)
            losses.append(_update(model, optimiser, [windows[i] for i in group], goal[group]))
            steps += 1
        spent = (time.monotonic() - began) / 60
        progress = (
            f"first stage: round {number + 1} of {ROUNDS}, loss {sum(losses) / len(losses):.3f}, {spent:.0f} minutes"
        )
        click.echo(progress, err=True)
    return model.eval()


def logits(model: FirstStage, windows: Windows) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The attack logits of windows."""
    out = np.zeros(len(windows), np.float32)
    with torch.inference_mode():
        for group in _grouped([len(ids) for ids, _ in windows]):
            out[group] = model.eval()(*batch([windows[i][0] for i in group], [windows[i][1] for i in group])).numpy()
    return out


def save(model: FirstStage, path: Path) -> None:
    """Write its weights."""
    torch.save(model.state_dict(), path)


def load(path: Path) -> FirstStage:
    """Read its weights."""
    state = torch.load(path, weights_only=True)
    model = FirstStage(len(state["words.weight"]))
    model.load_state_dict(state)
    return model.eval()


def _update(model: FirstStage, optimiser: torch.optim.Optimizer, part: Windows, goal: torch.Tensor) -> float:
    predicted = model(*batch([ids for ids, _ in part], [channel for _, channel in part]))
    missed = (goal - predicted).clamp(0, WEIGHT) * (goal > -1)
    loss = (functional.smooth_l1_loss(predicted, goal, reduction="none") * (1 + missed.detach())).mean()
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def _grouped(lengths: Sequence[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * (lengths[index] + 2) > TOKENS:
            groups.append(group)
            group = []
        group.append(index)
    return [*groups, group] if group else groups
