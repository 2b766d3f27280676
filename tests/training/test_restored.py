"""Twin of training/restored.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from sidecar.detectors.semantic.artifact import SHIPPED, ModelArtifact
from sidecar.detectors.semantic.cascade import FIRST_STAGE_FILE
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE
from training import export, restored, train
from training.base import BLOCK
from training.first_stage import FirstStage
from training.frozen import write
from training.network import WIDTH, Network, batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
WORDS, KEPT = 300, np.array([0, 1, 2, 3, *range(10, 300, 2)])


class Words:
    """A base with a few pieces, and nothing but their vectors."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.pieces, self.scores = [f"piece{number}" for number in range(WORDS)], -np.arange(WORDS, dtype=np.float32)
        self._codes = rng.integers(0, 16, (WORDS, WIDTH), dtype=np.uint8)
        self._scales = rng.uniform(0.005, 0.02, (WORDS, WIDTH // BLOCK)).astype(np.float16)

    def words(self) -> tuple[object, object]:
        """Codes and scales."""
        return self._codes, self._scales

    def tensor(self, _: str) -> npt.NDArray[np.float32]:
        """The same as floats."""
        return (self._codes.astype(np.float32) - 8) * np.repeat(self._scales.astype(np.float32), BLOCK, axis=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Words, Path]:
    """A network, its base, and the folder it is exported to."""
    torch.manual_seed(1)
    words, network, folder = Words(), Network(len(KEPT)).eval(), tmp_path_factory.mktemp("model")
    with torch.no_grad():
        for part in network.parameters():  # else equal ones are stored once, as in no trained network
            part.add_(0.01 * torch.randn_like(part))
        network.words.weight.copy_(torch.from_numpy(words.tensor("")[KEPT]))
    train.write_second(network, words, KEPT, folder)  # type: ignore[arg-type]
    return network, words, folder


def test_an_export_is_read_back(model: tuple[Network, Words, Path]) -> None:
    """The pieces are the same, and the logits are the network's but for the rounding."""
    network, words, folder = model
    assert restored.numbers(folder, words).tolist() == KEPT.tolist()  # type: ignore[arg-type]
    again = restored.network(folder, words).eval()  # type: ignore[arg-type]
    inputs = batch([[7, 20, 33], [101, 5, 60, 61, 62]], [0, 2])
    with torch.inference_mode():
        torch.testing.assert_close(again(*inputs)[0], network(*inputs)[0], atol=0.05, rtol=0)


def test_a_first_stage_is_read_back(tmp_path: Path) -> None:
    """The logits are the network's but for the rounding of its embeddings."""
    torch.manual_seed(1)
    network = FirstStage(WORDS).eval()
    with torch.no_grad():
        for part in network.parameters():
            part.add_(0.01 * torch.randn_like(part))
    export.export_first(network, tmp_path / FIRST_STAGE_FILE)
    again, inputs = restored.first_stage(tmp_path).eval(), batch([[7, 20, 33], [101, 5, 60, 61, 62]], [0, 2])
    with torch.inference_mode():
        torch.testing.assert_close(again(*inputs), network(*inputs), atol=0.05, rtol=0)


def test_a_graph_of_another_shape_is_refused(model: tuple[Network, Words, Path], tmp_path: Path) -> None:
    """A model that the recipe did not make cannot be continued: the message names the folder."""
    _, words, folder = model
    (tmp_path / "model.onnx").write_bytes((SHIPPED["onnx"] / FIRST_STAGE_FILE).read_bytes())
    (tmp_path / VOCABULARY_FILE).write_bytes((folder / VOCABULARY_FILE).read_bytes())
    artefact = ModelArtifact.read(folder)
    write(tmp_path, artefact.head, artefact.manifest)
    with pytest.raises(ValueError, match="is not a second stage"):
        restored.network(tmp_path, words)  # type: ignore[arg-type]
