"""Trains the network: phases of rows drawn once, in a fixed order, with checkpoints.

Of each phase rows are drawn by their weights, generated ones are added, and all are shuffled and processed in chunks. A
text and its twin stay together: their common part cancels out in the sum of their gradients, so what is learnt is the
difference. The examples of a chunk depend only on the seed, its number, and the network (which selects the worst
windows), so an interrupted training continues from its last checkpoint.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click
import torch
from torch.nn import functional

from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from sidecar.detectors.semantic.windows import Window
from training import expand
from training.documents import Documents
from training.network import Network, batch, half
from training.rows import Row
from training.windowing import SIZE, Example, examples


@dataclass(frozen=True)
class Plan:
    """Size and speed of a run."""

    documents: float = 0.18
    """Excerpts of long documents, as a share of the rows that are not generated."""
    rate: float = 1.2e-4
    """The highest rate of learning, after the first 4 %; it falls to a twentieth in a line."""
    tokens: int = 4_096
    """Of a batch, padding included."""
    chunk: int = 512
    seed: int = 7
    minutes: float = 10.0
    """Between two checkpoints."""


@dataclass(frozen=True)
class Phase:
    """A part of a run: what its rows are drawn from, how often each relative to the others, and how many in all."""

    rows: Sequence[Row]
    times: Sequence[float]
    size: int


class Trainer:
    """One training run."""

    def __init__(
        self,
        network: Network,
        pieces: SentencePieceTokenizer,
        phases: Sequence[Phase],
        long: Documents,
        plan: Plan | None = None,
    ) -> None:
        self.plan = plan or Plan()
        self.network, self.pieces, self._long = network, pieces, long
        self._pools = [expand.Pools.of(phase.rows, long) for phase in phases]
        self._optimiser = torch.optim.AdamW(network.groups(self.plan.rate), weight_decay=0.01, fused=True)
        self._rates = [group["lr"] for group in self._optimiser.param_groups]
        self._order = [
            (number, entry)
            for number, phase in enumerate(phases)
            for entry in self._drawn(phase, Random(f"{self.plan.seed}/phase {number}"))
        ]
        self.done = 0

    def __len__(self) -> int:
        """Rows of the whole run."""
        return len(self._order)

    def run(self, checkpoint: Path | None = None) -> Network:
        """Train on all remaining chunks."""
        if checkpoint and checkpoint.exists():
            self._restore(checkpoint)
        began, first, losses, saved = time.monotonic(), self.done, deque([0.0], maxlen=80), time.monotonic()
        while self.done < len(self):
            losses.extend(self._chunk())
            self._say(sum(losses) / len(losses), first, time.monotonic() - began)
            if checkpoint and (time.monotonic() - saved > 60 * self.plan.minutes or self.done >= len(self)):
                self._save(checkpoint)
                saved = time.monotonic()
        return self.network.eval()

    def scores(self, windows: Sequence[tuple[Window, int]]) -> list[float]:
        """The attack logit of each window in its channel, without dropout."""
        out = [0.0] * len(windows)
        self.network.eval()
        with torch.inference_mode(), half():
            for group in _grouped([len(window.ids) for window, _ in windows], 2 * self.plan.tokens):
                inputs = batch([windows[i][0].ids for i in group], [windows[i][1] for i in group])
                for index, logit in zip(group, self.network(*inputs)[0][:, 0].float().tolist(), strict=True):
                    out[index] = logit
        self.network.train()
        return out

    def windows(self, most: int) -> list[tuple[tuple[int, ...], int]]:
        """That many windows of the drawn rows, with their channels: at most two of each text."""
        rng, sampled = Random(self.plan.seed + 1), list[tuple[tuple[int, ...], int]]()
        while len(sampled) < most:
            row = self._row(*rng.choice(self._order), rng)
            cut = list(self.pieces.windows(row.text, SIZE))
            sampled.extend((window.ids, row.channel) for window in rng.sample(cut, min(2, len(cut))))
        return sampled[:most]

    def scores_of(self, windows: Sequence[tuple[tuple[int, ...], int]]) -> list[float]:
        """The attack logits of windows of pieces."""
        return self.scores([(Window(ids, 0, 0, ""), channel) for ids, channel in windows])

    def _drawn(self, phase: Phase, rng: Random) -> list[Row | str | None]:
        """The rows of a phase in order; None stands for a part of a document, a name for a generated row."""
        plain = round(phase.size / (1 + sum(expand.shares().values())))
        scale = plain * (1 - self.plan.documents) / sum(phase.times)
        place: dict[tuple[str, int], float] = {}
        drawn: list[tuple[float, Row | str | None]] = []
        for row, times in zip(phase.rows, phase.times, strict=True):
            share = times * scale
            for copy in range(int(share) + (rng.random() < share % 1)):
                group = row.group if row.paired else row.id
                drawn.append((place.setdefault((group, copy), rng.random()), row))
        drawn.extend((rng.random(), None) for _ in range(round(plain * self.plan.documents)))
        drawn.extend(
            (rng.random(), name) for name, share in expand.shares().items() for _ in range(round(share * plain))
        )
        return [entry for _, entry in sorted(drawn, key=lambda pair: pair[0])]

    def _chunk(self) -> list[float]:
        rng = Random(f"{self.plan.seed}/{self.done}")
        torch.manual_seed(self.plan.seed + self.done)
        rows = [self._row(*entry, rng) for entry in self._order[self.done : self.done + self.plan.chunk]]
        drawn = examples(rows, self.pieces, self.scores, rng)
        groups = list(_grouped([len(entry.ids) for entry in drawn], self.plan.tokens))
        rng.shuffle(groups)
        self._pace(self.done / len(self))
        losses = [self._update([drawn[i] for i in group]) for group in groups]
        self.done += len(rows)
        return losses

    def _row(self, phase: int, entry: Row | str | None, rng: Random) -> Row:
        if isinstance(entry, Row):
            return expand.touched(entry, rng)
        return self._long.excerpt(rng) if entry is None else expand.make(entry, self._pools[phase], rng)

    def _pace(self, progress: float) -> None:
        factor = progress / 0.04 + 0.02 if progress < 0.04 else max(0.05, (1 - progress) / 0.96)
        for group, rate in zip(self._optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * min(1.0, factor)

    def _update(self, group: Sequence[Example]) -> float:
        goal, weights = torch.tensor([e.goal for e in group]), torch.tensor([e.weights for e in group])
        with half():
            logits, _ = self.network(*batch([e.ids for e in group], [e.channel for e in group]))
        losses = functional.binary_cross_entropy_with_logits(logits.float(), goal, reduction="none")
        loss = (losses * weights).sum(1).mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimiser.step()
        return float(loss.detach())

    def _save(self, path: Path) -> None:
        state = {"network": self.network.state_dict(), "optimiser": self._optimiser.state_dict(), "done": self.done}
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def _restore(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.done = state["done"]

    def _say(self, loss: float, first: int, seconds: float) -> None:
        remaining = seconds / max(1, self.done - first) * (len(self) - self.done) / 60
        click.echo(f"{self.done:,} of {len(self):,} rows, loss {loss:.3f}, {remaining:.0f} minutes left", err=True)


def _grouped(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Indices grouped by length, each group within `tokens` once padded; a longer window is alone."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * (lengths[index] + 2) > tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
