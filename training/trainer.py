"""Trains the network: rounds of rows, seeded, resumable between rounds.

Each round draws rows by their weights, adds made ones, and goes through them in chunks: all windows of
the longer texts are scored first, and only the worst window of each text is learnt from, which is a loss on
the highest window at the price of one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import click
import torch
from tokenizers import Tokenizer
from torch.nn import functional

from sidecar.layers.embedding import Padding
from sidecar.layers.windows import Cut, Window, batches, prepared, windows
from training import expand
from training import rows as data
from training.network import SIMILARITY, Network, base, base_folder, pooled, torch_batch
from training.rows import OUTPUTS, Row
from training.scores import spread

CUT = Cut()


@dataclass(frozen=True)
class Plan:
    """How long and how fast. `draws` counts rows over all rounds, made ones not included."""

    draws: int = 8_000
    rounds: int = 2
    rate: float = 3e-4
    chunk: int = 512
    tokens: int = 2048
    frozen: int = 2
    seed: int = 7
    own: float = 2.0
    smooth: float = 0.02
    bag: int = 5
    """Windows of a long attack that are scored to find the one to learn from."""
    calm_bag: int = 3
    """The same for a harmless text, whose windows are drawn."""
    keep: float = 0.5
    """Weight of staying close to the original embedding, on every fourth batch."""


@dataclass(frozen=True)
class Example:
    """A window to learn from."""

    window: Window
    indirect: bool
    goal: tuple[float, ...]
    known: tuple[float, ...]


def half() -> torch.autocast:
    """Half precision where the processor multiplies it: elsewhere it is emulated, ten times as slow as whole floats."""
    can = torch.cpu.get_capabilities()
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(can.get("avx512_bf16") or can.get("amx_bf16")))


class Trainer:
    """One training run; `state` and `restore` make it resumable between rounds."""

    def __init__(self, rows: Sequence[Row], plan: Plan) -> None:
        torch.manual_seed(plan.seed)
        self.plan, self.rows = plan, rows
        self.weights = data.weights(rows, own=plan.own)
        self.pools = expand.Pools.of(rows)
        self.tokenizer = prepared(Tokenizer.from_file(str(base_folder() / "tokenizer.json")))
        self.pad = Padding.of(self.tokenizer, channels=True)
        self.done, self.step = 0, 0
        self._take(self.begin())

    def begin(self) -> Network:
        """The network before it has learnt anything."""
        self.original = base()
        return Network(self.plan.frozen)

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Begin at these weights."""
        self.network.load_state_dict(dict(weights))

    def _take(self, network: Network) -> None:
        self.network = network
        self.optimiser = torch.optim.AdamW(network.groups(self.plan.rate), weight_decay=0.01, fused=True)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]

    def state(self) -> dict[str, object]:
        """Everything needed to go on after the last round."""
        return {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "done": self.done,
            "step": self.step,
        }

    def restore(self, path: Path) -> None:
        """Go on where a checkpoint was written."""
        state = torch.load(path, weights_only=True)
        self.load(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.done, self.step = state["done"], state["step"]

    def run(self, checkpoint: Path | None = None, name: str = "training") -> Network:
        """All rounds that are left; a checkpoint is written after each."""
        while self.done < self.plan.rounds:
            self._round(name)
            self.done += 1
            if checkpoint:
                torch.save(self.state(), checkpoint)
        return self.network.eval()

    def _round(self, name: str) -> None:
        rng = Random(f"{self.plan.seed}/{self.done}")
        torch.manual_seed(self.plan.seed * 1000 + self.done)
        drawn = self.draw(rng)
        began, losses = time.monotonic(), deque([0.0], maxlen=40)
        for start in range(0, len(drawn), self.plan.chunk):
            share = start / len(drawn)
            self._say(name, share, sum(losses) / len(losses), began)
            chunk = drawn[start : start + self.plan.chunk]
            losses.extend(self._learn(self.examples(chunk, rng), rng, (self.done + share) / self.plan.rounds))

    def _say(self, name: str, share: float, loss: float, began: float) -> None:
        left = (time.monotonic() - began) / share * (self.plan.rounds - self.done - share) / 60 if share else 0.0
        told = (
            f"{name}: round {self.done + 1}/{self.plan.rounds}, {share:4.0%}, loss {loss:.3f}, {left:.0f} minutes left"
        )
        click.echo(told, err=True)

    def draw(self, rng: Random) -> list[Row]:
        """Rows of one round: each as often as its weight says, and the made ones, shuffled."""
        each = self.plan.draws / self.plan.rounds / len(self.rows)
        drawn = []
        for row, weight in zip(self.rows, self.weights, strict=True):
            share = weight * each
            times = int(share) + (rng.random() < share % 1)
            drawn.extend(expand.touched(row, rng) for _ in range(times))
        drawn.extend(expand.made(self.pools, len(drawn), rng))
        rng.shuffle(drawn)
        return drawn

    def examples(self, chunk: Sequence[Row], rng: Random) -> list[Example]:
        """The windows worth learning from: where the attack is known to stand, or the worst by the network so far."""
        chosen: list[Example] = []
        unsure: list[tuple[Row, list[Window]]] = []
        for row in chunk:
            found = windows(self.tokenizer, row.text, CUT)
            if len(found) < 2:
                chosen.extend(self._example(row, window) for window in found)
            elif not row.attack:
                unsure.append((row, rng.sample(found, min(self.plan.calm_bag, len(found)))))
            elif row.place:
                chosen.extend(self._placed(row, row.place, found, rng))
            else:
                unsure.append((row, spread(found, self.plan.bag)))
        return [*chosen, *self._worst(unsure)]

    def _placed(self, row: Row, place: tuple[int, int], found: Sequence[Window], rng: Random) -> Iterator[Example]:
        """A window that holds the attack, and at times one that holds none of it and is harmless therefore."""
        shared = [min(w.end, place[1]) - max(w.start, place[0]) for w in found]
        yield self._example(row, rng.choice([w for w, n in zip(found, shared, strict=True) if n >= 0.8 * max(shared)]))
        if (calm := [w for w, n in zip(found, shared, strict=True) if n <= 0]) and row.own and rng.random() < 0.5:
            yield self._example(replace(row, labels=frozenset()), rng.choice(calm))

    def _worst(self, unsure: Sequence[tuple[Row, Sequence[Window]]]) -> Iterator[Example]:
        logits = iter(self.scores([(window, row.indirect) for row, found in unsure for window in found]))
        for row, found in unsure:
            yield self._example(row, found[max((next(logits), at) for at in range(len(found)))[1]])

    def scores(self, found: Sequence[tuple[Window, bool]]) -> list[float]:
        """The attack logit of each window, with dropout off."""
        self.network.eval()
        out = [0.0] * len(found)
        with torch.inference_mode(), half():
            for batch in batches([w for w, _ in found], self.plan.tokens):
                tensors = self.tensors([found[i][0] for i in batch], [found[i][1] for i in batch])
                logits = self.network(*tensors)[0][:, 0].float().tolist()
                for index, logit in zip(batch, logits, strict=True):
                    out[index] = logit
        self.network.train()
        return out

    def tensors(self, found: Sequence[Window], indirect: Sequence[bool]) -> list[torch.Tensor]:
        """What the network takes, for windows and whether each is only read."""
        return torch_batch(self.pad([window.ids for window in found], indirect))

    def _example(self, row: Row, window: Window) -> Example:
        low, high = self.plan.smooth, 1 - self.plan.smooth
        names = ("attack" if row.attack else "", *row.labels)
        goal = tuple(high if name in names else low for name in OUTPUTS)
        return Example(window, row.indirect, goal, (1.0, *([0.3 if row.fine else 0.0] * (len(OUTPUTS) - 1))))

    def _learn(self, examples: Sequence[Example], rng: Random, progress: float) -> Iterator[float]:
        groups = list(batches([example.window for example in examples], self.plan.tokens))
        rng.shuffle(groups)
        for group in groups:
            self._pace(progress)
            yield self._update([examples[i] for i in group])

    def _pace(self, progress: float) -> None:
        """Warm up over the first 4 %, then fall in a line to a twentieth."""
        factor = min(1.0, progress / 0.04 + 0.02) if progress < 0.04 else max(0.05, (1 - progress) / 0.96)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    def _update(self, group: Sequence[Example]) -> float:
        tensors = self.tensors([e.window for e in group], [e.indirect for e in group])
        goal, known = torch.tensor([e.goal for e in group]), torch.tensor([e.known for e in group])
        with half():
            logits, found = self.network(*tensors)
        losses = functional.binary_cross_entropy_with_logits(logits.float(), goal, reduction="none")
        loss = (losses * known).sum(1).mean()
        total = loss + self._drift(tensors, found) if self.plan.keep and self.step % 4 == 0 else loss
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        return float(loss.detach())

    def _drift(self, tensors: Sequence[torch.Tensor], found: torch.Tensor) -> torch.Tensor:
        """How far the embedding has moved from the original one, as one minus the cosine."""
        with torch.no_grad(), half():
            hidden = self.original(input_ids=tensors[0], attention_mask=tensors[1]).last_hidden_state
            before = pooled(hidden, tensors[1])
        part = slice(*SIMILARITY)
        return (
            self.plan.keep * (1 - functional.cosine_similarity(found[:, part].float(), before[:, part].float())).mean()
        )
