"""A real model small enough for unit tests: it knows a handful of words, and "attack" is the worst of them."""

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
    """One token a word; words that it does not know are `[UNK]`."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def head() -> Head:
    """Reads the features of `TinyEncoder`: "attack" is injection, "leak" is extraction, "doubt" is half of each."""
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


CUT = WindowSpec(8, 2)


class TinyEncoder:
    """The features of a window are which words it holds. Counts its batches, and can be slow or fail."""

    def __init__(self, *, pause: float = 0.0, cut: WindowSpec = CUT) -> None:
        self.pause, self.cut = pause, cut
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.broken = False

    def windows(self, text: str) -> Iterator[Window]:
        """Windows of eight words, two of them shared with the one before."""
        return iter_windows(tokenizer(), text, self.cut)

    def features(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Array:
        """One row a window."""
        assert len(windows) == len(channels)
        self.batches.append(len(windows))
        self.threads.add(threading.current_thread().name)
        time.sleep(self.pause)
        if self.broken:
            raise RuntimeError("secret text")
        found = np.zeros((len(windows), len(WORDS)), np.float32)
        for row, window in enumerate(windows):
            found[row, list(window)] = 1
        return found


class TinyFirst:
    """The tiny model as a first stage: it says what the head would say. Counts the windows that it read."""

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
    """A description for the tiny model."""
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
    """A model folder with head and description, and the right digests for whatever else lies in it."""
    made = head()
    np.savez(folder / "head.npz", weights=made.weights, bias=made.bias)
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.name != "model.json"}
    complete = described.model_copy(update={"files": files}).model_dump(mode="json")
    (folder / "model.json").write_bytes(orjson.dumps(complete))
    return folder
