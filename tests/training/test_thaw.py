"""Twin of training/thaw.py: the shipped model, read back, says what it says as it is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.embedding import OnnxEncoder, OnnxNetwork
from sidecar.layers.pieces import FILE as PIECES
from sidecar.layers.pieces import Pieces
from sidecar.layers.scorer import FOLDER
from training import glance as glances
from training import rows as data
from training import soup, thaw
from training.train import parity

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
MODEL = SHIPPED["onnx"]
EVERY = 800


def texts() -> list[str]:
    """Rows of all files."""
    return [row.text for row in data.corpus()[::EVERY]]


def test_the_network_says_what_the_export_says() -> None:
    """As near as full precision is to int8, on texts of all kinds."""
    artefact = Artefact.read(MODEL)
    encoder = OnnxEncoder(artefact, 1)
    tokens = [encoder.tokenizer.encode(text, add_special_tokens=False).ids[:126] for text in texts()]
    found = parity(thaw.network(MODEL), encoder, artefact.head, tokens)
    assert found["cosine_mean"] > 0.99
    assert found["logit_drift_median"] < 0.2


def test_so_does_the_glance() -> None:
    """With its own words, by the numbers that they have in the package."""
    artefact = Artefact.read(MODEL / FOLDER)
    pieces = Pieces.read(artefact.folder / PIECES)
    small = OnnxNetwork(artefact, pieces.padding(channels=True), 1)
    made = thaw.glance(MODEL)
    found = parity(made, small, artefact.head, [pieces(text)[:126] for text in texts()])
    assert found["cosine_mean"] > 0.99
    assert found["logit_drift_median"] < 0.2
    assert glances.vocabulary(made.pieces.tolist()) == (artefact.folder / PIECES).read_bytes()


def test_training_can_go_on_from_the_checkpoints(tmp_path: Path) -> None:
    """They are what `--start` takes, and hold every weight."""
    done = CliRunner().invoke(thaw.main, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    made = soup.network(soup.read(tmp_path / "network.pt"))
    assert torch.equal(made.head.weight, thaw.network(MODEL).head.weight)
    again = glances.from_weights(soup.read(tmp_path / "glance.pt"))
    assert torch.equal(again.words.codes, thaw.glance(MODEL).words.codes)
