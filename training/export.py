"""Exports trained networks as ONNX: plain operations, 8-bit matrix products, embeddings as they were stored.

Both networks are exported for serving: one window at its exact length, without padding. The second stage's products are
quantised per channel (to seven bits, so that processors without VNNI do not overflow); its embeddings are the base's,
in their own four bits. Of the first stage only the embeddings are in eight bits.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

from training import first_stage as stages
from training.base import BLOCK, Base
from training.first_stage import FirstStage
from training.network import HEADS, PLACES, WIDTH, Network
from training.vocabulary import Numbers

MICROSOFT = "com.microsoft"
HALF = 8
"""The code of zero in the base's 4-bit weights."""


class Plain(nn.Module):
    """The second stage without its embedding: vectors of one window in, features out."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, vectors: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """(1, tokens, width) and (1, tokens) -> (1, 2 x width)."""
        net = self.network
        hidden = net.norm(vectors + net.places(torch.arange(vectors.shape[1])))
        for number, layer in enumerate(net.layers):
            hidden = hidden + net.types(types) if number == net.frozen else hidden
            hidden = _layer(layer, hidden)
        return torch.cat([hidden.mean(dim=1), hidden.amax(dim=1)], dim=1)


class PlainFirst(nn.Module):
    """The first stage without its embedding."""

    def __init__(self, model: FirstStage) -> None:
        super().__init__()
        self.made = model

    def forward(self, vectors: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """(1, pieces, width) and (1, pieces) -> (1, 1)."""
        return self.made.of(vectors, torch.ones_like(types), types).unsqueeze(-1)


def _layer(layer: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    def split(states: torch.Tensor) -> torch.Tensor:
        return states.view(1, -1, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    query, key, value = (split(part) for part in layer.all(hidden).split(WIDTH, dim=-1))
    scores = torch.matmul(query * (WIDTH // HEADS) ** -0.5, key.transpose(-1, -2))
    mixed = torch.matmul(torch.softmax(scores, dim=-1), value).permute(0, 2, 1, 3).reshape(1, -1, WIDTH)
    hidden = layer.norm(hidden + layer.out(mixed))
    return layer.norm_last(hidden + layer.down(nn.functional.gelu(layer.up(hidden))))


def export(network: Network, base: Base, numbers: Numbers, target: Path) -> None:
    """Write the second stage."""
    codes, scales = base.words()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.onnx"
        _trace(Plain(network).eval(), WIDTH, "features", PLACES, plain)
        quantised = Path(folder) / "quantised.onnx"
        _quantise(plain, quantised)
        model = onnx.load(quantised)
    nodes, tensors = _four_bits(codes[numbers], scales[numbers])
    _behind_words(model, nodes, tensors)
    onnx.save(model, target)


def export_first(model: FirstStage, target: Path) -> None:
    """Write the first stage."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.onnx"
        _trace(PlainFirst(model).eval(), stages.WIDTH, "logit", PLACES, plain)
        traced = onnx.load(plain)
    nodes, tensors = _eight_bits(model.words.weight.detach().numpy())
    _behind_words(traced, nodes, tensors)
    onnx.save(traced, target)


def _four_bits(codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.float16]) -> tuple[list[Any], list[Any]]:
    """An embedding lookup in the base's own 4-bit table: two codes to a byte, the lower one first."""
    signed = (codes.astype(np.int8) - HALF) & 15
    packed = (signed[:, ::2] | (signed[:, 1::2] << 4)).astype(np.uint8)
    table = helper.make_tensor("words", TensorProto.INT4, codes.shape, packed.tobytes(), raw=True)
    inputs, attributes = (
        ["words", "input_ids", "words_scales"],
        {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK},
    )
    nodes = [
        helper.make_node("GatherBlockQuantized", inputs, ["vectors_half"], domain=MICROSOFT, **attributes),
        helper.make_node("Cast", ["vectors_half"], ["vectors"], to=TensorProto.FLOAT),
    ]
    return nodes, [table, numpy_helper.from_array(np.ascontiguousarray(scales), "words_scales")]


def _eight_bits(vectors: npt.NDArray[np.float32]) -> tuple[list[Any], list[Any]]:
    """An 8-bit embedding lookup, with one scale for all vectors."""
    scale = np.float32(np.quantile(np.abs(vectors), 0.9999) / 127)
    table = np.clip(np.round(vectors / scale), -127, 127).astype(np.int8)
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["codes"], axis=0),
        helper.make_node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "words_scale"], ["vectors"]),
    ]
    return nodes, [numpy_helper.from_array(table, "words"), numpy_helper.from_array(np.array(scale), "words_scale")]


def _behind_words(model: onnx.ModelProto, nodes: Sequence[Any], tensors: Sequence[Any]) -> None:
    """Prepend the embedding lookup to a graph that takes vectors."""
    graph = model.graph
    inputs = [item for item in graph.input if item.name != "vectors"]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
    del graph.input[:]
    graph.input.extend([ids, *inputs])
    graph.initializer.extend(tensors)
    behind = list(graph.node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend([*nodes, *behind])
    if MICROSOFT not in {item.domain for item in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))


def _quantise(source: Path, target: Path) -> None:
    model = onnx.load(source)
    del model.graph.value_info[:]  # shapes of weights that the quantiser turns round would be in its way
    onnx.save(model, source)
    logging.disable(logging.WARNING)
    quantize_dynamic(
        str(source),
        str(target),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul"],
    )
    logging.disable(logging.NOTSET)


def _trace(plain: nn.Module, width: int, output: str, longest: int, path: Path) -> None:
    vectors, types = torch.randn(1, 16, width), torch.zeros((1, 16), dtype=torch.int64)
    length = torch.export.Dim("tokens", min=2, max=longest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            plain,
            (vectors, types),
            dynamo=True,
            input_names=["vectors", "token_type_ids"],
            output_names=[output],
            dynamic_shapes=({1: length}, {1: length}),
            opset_version=21,
            verbose=False,
        )
    program.save(str(path))
