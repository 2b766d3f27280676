"""A real model small enough for unit tests: it knows a few words, of which "attack" scores highest."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from sidecar.detectors.semantic.artifact import Array, Calibration, Head, Manifest
from sidecar.detectors.semantic.windows import Window, WindowSpec, iter_windows
from sidecar.types import Channel, Label

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "calm", "doubt", "attack", "leak")
OUTPUTS = ("attack", "prompt_injection", "jailbreak", "system_prompt_extraction", "token_smuggling")


def tokenizer() -> Tokenizer:
    """One token per word; unknown words are `[UNK]`."""
    word_tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    word_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return word_tokenizer


def head() -> Head:
    """The head for the features of `TinyEncoder`: "attack" is injection, "leak" extraction, "doubt" half of each."""
    weights = np.zeros((5, len(WORDS)), np.float32)
    weights[:, WORDS.index("attack")] = [10, 10, -10, -10, -10]
    weights[:, WORDS.index("leak")] = [10, -10, -10, 10, -10]
    weights[:, WORDS.index("doubt")] = [5, 5, -10, 5, -10]
    return Head(weights, np.full(5, -5, np.float32), OUTPUTS)


@dataclass(frozen=True)
class Rule:
    """A rule with examples."""

    id: str
    similar_to: tuple[str, ...]
    label: Label = Label.PROMPT_INJECTION
    score: float = 0.8
    status: str = "block"
    channels: tuple[Channel, ...] = (Channel.DIRECT, Channel.INDIRECT)
    topic: str | None = None


CUT = WindowSpec(8, 2)


class TinyEncoder:
    """Encodes a window as the set of its words. Counts its batches, and can be slow or fail."""

    def __init__(self, *, pause: float = 0.0, cut: WindowSpec = CUT) -> None:
        self.pause, self.cut = pause, cut
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.broken = False

    def windows(self, text: str) -> Iterator[Window]:
        """Windows of eight words with an overlap of two."""
        return iter_windows(tokenizer(), text, self.cut)

    def features(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Array:
        """One row per window."""
        assert len(windows) == len(channels)
        self.batches.append(len(windows))
        self.threads.add(threading.current_thread().name)
        time.sleep(self.pause)
        if self.broken:
            raise RuntimeError("secret text")
        rows = np.zeros((len(windows), len(WORDS)), np.float32)
        for row, window in enumerate(windows):
            rows[row, list(window)] = 1
        return rows


class TinyFirst:
    """The tiny model as a first-stage model, with the logits of the head. Counts the windows that it read."""

    def __init__(self, *, pause: float = 0.0) -> None:
        self.pause, self.read, self.broken = pause, 0, False

    def __call__(self, window: Sequence[int], channel: int) -> Array:
        """The attack logit."""
        self.read += 1
        time.sleep(self.pause)
        if self.broken:
            raise RuntimeError("secret text")
        return head().logits(TinyEncoder().features([window], [channel]))[:, :1]


def manifest(**changes: object) -> Manifest:
    """A manifest for the tiny model."""
    values: dict[str, object] = {
        "name": "tiny",
        "version": "1",
        "engine": "onnx",
        "window": 8,
        "overlap": 2,
        "outputs": OUTPUTS,
        "similarity": (4, len(WORDS)),
        "calibration": Calibration(),
        "files": {},
    }
    return Manifest.model_validate(values | changes)


def write_folder(folder: Path, described: Manifest) -> Path:
    """Write head and manifest to a model folder, with the digests of its other files."""
    model_head = head()
    np.savez(folder / "head.npz", weights=model_head.weights, bias=model_head.bias)
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.name != "model.json"}
    complete = described.model_copy(update={"files": files}).model_dump(mode="json")
    (folder / "model.json").write_bytes(orjson.dumps(complete))
    return folder
