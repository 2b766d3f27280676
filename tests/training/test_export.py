"""Twin of training/export.py: the exported model gives what the network gives, through the engines themselves."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_model import OUTPUTS

from sidecar.layers.artefact import Artefact, Calibration, Head, Manifest
from sidecar.layers.embedding import Encoder, open_encoder
from training import export, frozen
from training import rows as data
from training.network import SIMILARITY, Network, base_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
TEXTS = 500


def encoder(folder: Path, engine: str, network: Network) -> Encoder:
    """A model folder for one of the engines, opened by it."""
    folder.mkdir()
    if engine == "onnx":
        export.export(network, folder / "model.onnx")
        (folder / "tokenizer.json").write_bytes((base_folder() / "tokenizer.json").read_bytes())
    else:
        export.reference(network, folder)
    head = Head(network.head.weight.detach().numpy(), network.head.bias.detach().numpy(), OUTPUTS)
    values = {"name": "t", "version": "1", "engine": engine, "channels": True, "outputs": OUTPUTS}
    described = Manifest(**values, similarity=SIMILARITY, calibration=Calibration(), files={})  # type: ignore[arg-type]
    frozen.write(folder, head, described)
    return open_encoder(Artefact.read(folder), 1)


def test_both_engines_agree_on_five_hundred_texts(tmp_path: Path) -> None:
    """int8 on onnxruntime against full precision on torch: nearly the same features in either channel."""
    torch.manual_seed(1)
    network = Network().eval()
    with torch.no_grad():
        network.bert.embeddings.token_type_embeddings.weight[1] += 0.05
    light, full = (encoder(tmp_path / engine, engine, network) for engine in ("onnx", "sentence-transformers"))
    rows = sorted(data.corpus(), key=lambda row: sha256(row.id.encode()).digest())[:TEXTS]  # whatever files there are
    read = [(light.tokenizer.encode(row.text, add_special_tokens=False).ids[:126], row.indirect) for row in rows]
    read.sort(key=lambda text: len(text[0]))  # padding would be most of the work
    cosines = []
    for start in range(0, len(read), 10):
        ids, indirect = map(list, zip(*read[start : start + 10], strict=True))
        one, other = (e.features(ids, indirect) for e in (light, full))
        cosines.extend((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1))
    assert len(cosines) == TEXTS
    assert float(np.mean(cosines)) > 0.985
    assert min(cosines) > 0.95
