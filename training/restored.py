"""Reads exported networks back, to continue their training.

The 8-bit matrices become 32-bit floats again; embeddings come from the base, whose codes the export keeps. The matrix
products of the graph are in the order of the layers: attention in, attention out, and the two of the feed-forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from sentencepiece import SentencePieceProcessor

from sidecar.detectors.semantic.artifact import ModelArtifact
from sidecar.detectors.semantic.cascade import FIRST_STAGE_FILE
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE
from training.base import Base
from training.first_stage import FirstStage
from training.network import LAYERS, WIDTH, Network
from training.vocabulary import Numbers

SPECIAL = 4
"""The first pieces, whose texts differ from the base's."""
PREFIX = "network."


def numbers(folder: Path, base: Base) -> Numbers:
    """The base's numbers of a model's pieces, in order."""
    pieces = SentencePieceProcessor(model_proto=(folder / VOCABULARY_FILE).read_bytes())
    known = {piece: number for number, piece in enumerate(base.pieces)}
    kept = [known[pieces.id_to_piece(number)] for number in range(SPECIAL, pieces.vocab_size())]
    return np.array([*range(SPECIAL), *kept], np.int64)


def network(folder: Path, base: Base) -> Network:
    """The second stage of a model folder. Raises `ValueError` for another graph."""
    words = base.tensor("emb.word").reshape(-1, WIDTH)[numbers(folder, base)]
    network, head = Network(len(words)), ModelArtifact.read(folder).head
    tensors = {"words.weight": words, "head.weight": head.weights, "head.bias": head.bias}
    tensors.update(_tensors(onnx.load(folder / "model.onnx").graph))
    state = network.state_dict()
    if missing := sorted(state.keys() - tensors):
        raise ValueError(f"{folder / 'model.onnx'}: is not a second stage, since {missing[0]} is missing")
    network.load_state_dict({name: torch.tensor(tensors[name]).view_as(state[name]) for name in state})
    return network


def first_stage(folder: Path) -> FirstStage:
    """The first stage of a model folder."""
    graph = onnx.load(folder / FIRST_STAGE_FILE).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    tensors = {name.removeprefix("made."): array for name, array in stored.items() if name.startswith("made.")}
    products = [node.input[1] for node in graph.node if node.op_type == "MatMul"]
    tensors |= {f"grams.{number}.weight": stored[name].T for number, name in enumerate(products)}
    tensors["words.weight"] = stored["words"].astype(np.float32) * stored["words_scale"]
    model = FirstStage(len(stored["words"]))
    model.load_state_dict({name: torch.tensor(array) for name, array in tensors.items()})
    return model


def _tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """The weights of the layers by name: biases and norms as they are stored, matrices from their codes."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name != "words"}
    yield from ((name.removeprefix(PREFIX), array) for name, array in stored.items() if name.startswith(PREFIX))
    products = [node.input[1].removesuffix("_quantized") for node in graph.node if node.op_type == "MatMulInteger"]
    places = product(range(LAYERS), ("all", "out", "up", "down"))
    for (layer, part), name in zip(places, products, strict=False):
        codes = stored[f"{name}_quantized"].astype(np.float32) - stored[f"{name}_zero_point"]
        yield f"layers.{layer}.{part}.weight", np.ascontiguousarray((codes * stored[f"{name}_scale"]).T)
