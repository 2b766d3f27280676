"""How well `topic` rules tell on-topic from off-topic questions (`topics.yaml`), and what they cost.

    python -m benchmarks.topics [--half development|final] [--engine ENGINE] [--examples 10] [--choice] [--price]

Each assistant's ten examples are a rule with `topic: allowed`, and one with `topic: denied`, alone and beside the
allowed rule of another assistant. Printed is the share of sentences that match. `near` are the first ten sentences of
`off_topic`, which share words with the topic; `others` are the on-topic questions of the other assistants. `--choice`:
the figures of other cosines, from which those in the model's manifest were chosen. `--price`: processor time of
questions, and of a document in a tool result, without and with a topic rule.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import yaml

from sidecar import config
from sidecar.detectors.semantic.artifact import SHIPPED, Array, Engine, ModelArtifact
from sidecar.detectors.semantic.encoder import Encoder, open_encoder
from sidecar.detectors.semantic.layer import SemanticLayer
from sidecar.detectors.semantic.topics import Topics
from sidecar.types import Channel, Label, ScanRequest, Segment, Source

FILE = Path(__file__).with_suffix(".yaml")
HALVES = ("development", "final")
NEAR = 10
ENGLISH = {"on_topic": 20, "off_topic": 23}
"""The lines before the German ones."""
COSINES = (0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50)


@dataclass(frozen=True)
class TopicRule:
    """A rule as the semantic layer needs it."""

    id: str
    similar_to: Sequence[str]
    topic: str
    label: Label = Label.JAILBREAK
    score: float = 0.7
    status: str = "hint"
    channels: Sequence[Channel] = (Channel.DIRECT,)


class Assistants:
    """The assistants of one half, and a model."""

    def __init__(self, half: str, engine: Engine, examples: int = 10) -> None:
        read: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
        self.follow_ups: list[str] = read.pop("follow_ups")[half]
        self.lines = {name: parts for name, parts in read.items() if parts["half"] == half}
        artifact = ModelArtifact.read(SHIPPED[engine])
        self.manifest, self.encoder, self.examples = artifact.manifest, open_encoder(artifact, 1), examples

    def rule(self, name: str, topic: str) -> TopicRule:
        """The rule of an assistant, with its first examples."""
        return TopicRule(f"{topic}-{name}".upper(), self.lines[name]["examples"][: self.examples], topic)

    def topics(self, *rules: TopicRule, cosines: tuple[float, float] | None = None) -> Topics:
        """These rules, with the cosines of the manifest or others."""
        manifest = self.manifest.model_copy(update={"topic_cosines": cosines} if cosines else {})
        return Topics(rules, self.encoder, manifest)

    def groups(self, name: str) -> dict[str, list[str]]:
        """The sentences by what the rules of an assistant should do with them."""
        own = self.lines[name]
        others = [line for other in self.lines if other != name for line in self.lines[other]["on_topic"]]
        english = {f"{kind}, English": own[kind][:number] for kind, number in ENGLISH.items()}
        kinds = {"on_topic": own["on_topic"], "off_topic": own["off_topic"]}
        return kinds | {"near": own["off_topic"][:NEAR], "others": others} | english


def matched(topics: Topics, encoder: Encoder, rule: TopicRule, lines: Sequence[str]) -> list[bool]:
    """Whether the rule matches each of the lines as a user's turn."""
    return [rule.id in {hit.rule.id for hit in topics.hits(_features(topics, encoder, line))} for line in lines]


def _features(topics: Topics, encoder: Encoder, line: str) -> list[Array]:
    windows = islice(encoder.windows(line), topics.windows_of(Segment(line)))
    return [_embedded(encoder, window.ids) for window in windows]


@cache
def _embedded(encoder: Encoder, ids: tuple[int, ...]) -> Array:
    return encoder.features([ids], [0])[0]


def figures(assistants: Assistants, topic: str, cosines: tuple[float, float] | None = None) -> dict[str, float]:
    """The share of sentences that match, by group, over all assistants."""
    found: dict[str, list[bool]] = {}
    for name in assistants.lines:
        rule = assistants.rule(name, topic)
        topics = assistants.topics(rule, cosines=cosines)
        for group, lines in assistants.groups(name).items():
            found.setdefault(group, []).extend(matched(topics, assistants.encoder, rule, lines))
        found.setdefault("follow-ups", []).extend(matched(topics, assistants.encoder, rule, assistants.follow_ups))
    return {group: float(np.mean(hits)) for group, hits in found.items()}


def beside(assistants: Assistants) -> dict[str, float]:
    """Matches of denied rules beside the allowed rule of another assistant, over all pairs."""
    found: dict[str, list[bool]] = {}
    for name, other in ((name, other) for name in assistants.lines for other in assistants.lines if name != other):
        rule = assistants.rule(name, "denied")
        topics, lines = assistants.topics(rule, assistants.rule(other, "allowed")), assistants.lines
        groups = {"denied": lines[name]["on_topic"], "allowed": lines[other]["on_topic"]}
        for group, texts in (groups | {"off_topic": lines[name]["off_topic"]}).items():
            found.setdefault(group, []).extend(matched(topics, assistants.encoder, rule, texts))
    return {group: float(np.mean(hits)) for group, hits in found.items()}


async def price(assistants: Assistants, engine: Engine) -> list[tuple[str, float, float]]:
    """Milliseconds of the processor for a question of a user and for a document, with each kind of rule."""
    questions = [line for parts in assistants.lines.values() for line in parts["on_topic"]]
    document = " ".join(f"On day {day} the committee met in room {day * 7} about the library." for day in range(400))
    topic = assistants.rule(next(iter(assistants.lines)), "allowed")
    kinds = {"no rule": [], "topic": [topic], "similar_to alone": [TopicRule("PLAIN", topic.similar_to, "")]}
    return [(kind, *await _milliseconds(engine, rules, questions, document)) for kind, rules in kinds.items()]


async def _milliseconds(
    engine: Engine, rules: Sequence[TopicRule], questions: Sequence[str], document: str
) -> tuple[float, float]:
    layer = SemanticLayer.load(config.SemanticLayer(engine=engine, threads=1), rules)
    try:
        await layer.scan(ScanRequest((Segment("The first request loads what is loaded once."),)), ())
        started = time.process_time()
        for line in questions:
            await layer.scan(ScanRequest((Segment(line),)), ())
        asked = time.process_time()
        await layer.scan(ScanRequest((Segment(document, Source.UNTRUSTED),)), ())
        return (asked - started) / len(questions) * 1000, (time.process_time() - asked) * 1000
    finally:
        await layer.close()


def show(title: str, shares: dict[str, float]) -> None:
    """One line."""
    print(f"{title:24}", "  ".join(f"{group} {share:.2f}" for group, share in shares.items()))


def main() -> None:
    """Print the figures of one half and one engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=HALVES, default="development")
    parser.add_argument("--engine", choices=get_args(Engine), default="onnx")
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--choice", action="store_true")
    parser.add_argument("--price", action="store_true")
    options = parser.parse_args()
    assistants = Assistants(options.half, options.engine, options.examples)
    print(
        f"{options.engine}, {options.half}, {', '.join(assistants.lines)}, cosines {assistants.manifest.topic_cosines}"
    )
    show("topic: allowed", figures(assistants, "allowed"))
    show("topic: denied", figures(assistants, "denied"))
    show("denied beside allowed", beside(assistants))
    far, near = assistants.manifest.topic_cosines
    for cosine in COSINES if options.choice else ():
        show(f"allowed, below {cosine:.2f}", figures(assistants, "allowed", (cosine, near)))
        show(f"denied, from {cosine:.2f}", figures(assistants, "denied", (far, cosine)))
    if options.price:
        for kind, question, document in asyncio.run(price(assistants, options.engine)):
            print(f"{kind:24} {question:.1f} ms a question, {document:.0f} ms a document of tool results")


if __name__ == "__main__":
    main()
