"""Twin of training/export.py: what is exported says what the networks say, through the runtime that serves it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from sidecar.detectors.semantic.artifact import SHIPPED
from sidecar.detectors.semantic.encoder import Session
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE, SentencePieceTokenizer
from training import export, first_stage
from training.base import BLOCK
from training.network import WIDTH, Network, batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
WORDS = 500
PIECES = SentencePieceTokenizer.read(SHIPPED["onnx"] / VOCABULARY_FILE)


class Words:
    """A base of which nothing but the words is asked for."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.codes = rng.integers(0, 16, (2 * WORDS, WIDTH), dtype=np.uint8)
        self.scales = rng.uniform(0.005, 0.02, (2 * WORDS, WIDTH // BLOCK)).astype(np.float16)

    def words(self) -> tuple[object, object]:
        """Codes and scales."""
        return self.codes, self.scales

    def vectors(self) -> torch.Tensor:
        """The same as floats."""
        whole = np.repeat(self.scales.astype(np.float32), BLOCK, axis=1)
        return torch.from_numpy((self.codes.astype(np.float32) - 8) * whole)


def windows() -> list[tuple[list[int], int]]:
    """Windows of all lengths, in every channel."""
    rng = Random(2)
    return [([rng.randrange(4, WORDS) for _ in range(1 + n * 3)], n % 3) for n in range(41)]


def test_the_second_stage_is_nearly_the_network(tmp_path: Path) -> None:
    """Eight bits against whole numbers: nearly the same features at every length, in every channel."""
    torch.manual_seed(1)
    words, network, numbers = Words(), Network(WORDS, layers=2, frozen=1).eval(), np.arange(WORDS) * 2
    torch.nn.init.normal_(network.types.weight, std=0.5)
    with torch.no_grad():
        network.words.weight.copy_(words.vectors()[numbers])
    export.export(network, words, numbers, tmp_path / "model.onnx")  # type: ignore[arg-type]
    run, cosines = Session(tmp_path / "model.onnx", "features", PIECES, 1), []
    for ids, channel in windows():
        with torch.inference_mode():
            reference = network.features(*batch([ids], [channel]))[0].numpy()
        other = run(ids, channel)[0]
        cosines.append(float(reference @ other / np.linalg.norm(reference) / np.linalg.norm(other)))
    assert min(cosines) > 0.98


def test_the_first_stage_is_the_network(tmp_path: Path) -> None:
    """Only its words are rounded."""
    torch.manual_seed(1)
    model = first_stage.begin(torch.randn(WORDS, 96)).eval()
    export.export_first(model, tmp_path / "first.onnx")
    run = Session(tmp_path / "first.onnx", "logit", PIECES, 1)
    for ids, channel in windows():
        with torch.inference_mode():
            expected = model(*batch([ids], [channel]))
        assert float(run(ids, channel)[0, 0]) == pytest.approx(float(expected), abs=0.03)
