"""Writes a trained network as int8 ONNX: plain module, dynamo export, fused graph, quantised per channel.

The exporters of the libraries are wrong or do not install beside these versions, so the network is laid
out once more in plain operations, and `parity` shows that nothing was lost on the way.
"""

from __future__ import annotations

import logging
import math
import tempfile
import warnings
from pathlib import Path

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn
from transformers import AutoTokenizer

from training.glance import Glance
from training.network import WIDTH, Network, base_folder
from training.tables import Table

HEADS = 12
PLACES = 128
"""Tokens of the longest window, special ones included."""
PIECE = 3
"""Numbers of a word vector that share one byte of the export."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Attention(nn.Module):
    """Scaled dot-product attention, head by head, with the output projection and its residual."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        own = layer.attention.self
        parts = (own.query, own.key, own.value)
        self.all = nn.Linear(WIDTH, 3 * WIDTH)  # one product instead of three: one quantisation of the input
        self.all.weight = nn.Parameter(torch.cat([part.weight for part in parts]).detach())
        self.all.bias = nn.Parameter(torch.cat([part.bias for part in parts]).detach())
        self.dense, self.norm = layer.attention.output.dense, layer.attention.output.LayerNorm

    def forward(self, hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) -> the same."""

        def split(found: torch.Tensor) -> torch.Tensor:
            return found.view(found.shape[0], found.shape[1], HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

        query, key, value = (split(part) for part in self.all(hidden).split(WIDTH, dim=-1))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS) + bias
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value).permute(0, 2, 1, 3).contiguous()
        return self.norm(self.dense(mixed.view(mixed.shape[0], mixed.shape[1], WIDTH)) + hidden)


class Plain(nn.Module):
    """The same network without any library between it and its weights; gives the features."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        embeddings, layers = network.bert.embeddings, network.bert.encoder.layer
        self.words, self.types = (
            Table.of(embeddings.word_embeddings.weight.detach(), PIECE),
            embeddings.token_type_embeddings,
        )
        self.positions = nn.Embedding.from_pretrained(embeddings.position_embeddings.weight[:PLACES].detach())
        self.norm = embeddings.LayerNorm
        self.attention = nn.ModuleList(Attention(layer) for layer in layers)
        self.up = nn.ModuleList(layer.intermediate.dense for layer in layers)
        self.down = nn.ModuleList(layer.output.dense for layer in layers)
        self.norms = nn.ModuleList(layer.output.LayerNorm for layer in layers)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """(batch, 3 x 384)."""
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        hidden = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(places))
        there = attention_mask.to(hidden.dtype)
        bias = (1.0 - there)[:, None, None, :] * -10000.0
        for attention, up, down, norm in zip(self.attention, self.up, self.down, self.norms, strict=True):
            hidden = attention(hidden, bias)
            hidden = norm(down(nn.functional.gelu(up(hidden))) + hidden)
        there = there.unsqueeze(-1)
        highest = (hidden * there + (there - 1) * 1e4).amax(dim=1)
        return torch.cat([hidden[:, 0], highest, (hidden * there).sum(1) / there.sum(1)], dim=1)


def export(network: Network, target: Path) -> None:
    """Write `target`, an int8 model of about 15 MB."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, fused = Path(folder) / "plain.onnx", Path(folder) / "fused.onnx"
        _trace(Plain(network).eval(), plain, PLACES)
        _fuse(plain, fused)
        _quantise(fused, target)


def export_glance(glance: Glance, target: Path) -> None:
    """Write `target`, an int8 model of about 9 MB."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Path(folder) / "plain.onnx"
        _trace(Features(glance).eval(), plain, 4 * PLACES)
        traced = onnx.load(plain)
        del traced.graph.value_info[:]  # shapes of weights that the quantiser turns round would be in its way
        onnx.save(traced, plain)
        _quantise(plain, target)


class Features(nn.Module):
    """A glance that gives its features alone."""

    def __init__(self, glance: Glance) -> None:
        super().__init__()
        self.glance = glance

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """(batch, 2048)."""
        return self.glance.features(input_ids, attention_mask, token_type_ids)


def _quantise(source: Path, target: Path) -> None:
    logging.disable(logging.WARNING)
    quantize_dynamic(
        str(source),
        str(target),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=False,
        op_types_to_quantize=["MatMul", "Attention"],
    )
    logging.disable(logging.NOTSET)


def _trace(plain: nn.Module, path: Path, limit: int) -> None:
    ids = torch.randint(5, 1000, (2, 16))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    size = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=limit)}
    program = torch.onnx.export(
        plain,
        (ids, mask, types),
        dynamo=True,
        input_names=list(INPUTS),
        output_names=["features"],
        dynamic_shapes=(size, size, size),
        opset_version=18,
        verbose=False,
    )
    program.save(str(path))


def _fuse(source: Path, target: Path) -> None:
    options = FusionOptions("bert")
    options.enable_skip_layer_norm = options.enable_bias_skip_layer_norm = False  # five times as slow as its two parts
    model = optimizer.optimize_model(
        str(source), model_type="bert", num_heads=HEADS, hidden_size=WIDTH, optimization_options=options, opt_level=0
    )
    model.save_model_to_file(str(target))
    logging.getLogger(__name__).info("fused %s", model.get_fused_operator_statistics())


def reference(network: Network, folder: Path) -> None:
    """Write the network as a sentence-transformers model, which `engine: sentence-transformers` can serve."""
    with tempfile.TemporaryDirectory() as plain:
        network.bert.save_pretrained(plain)
        AutoTokenizer.from_pretrained(base_folder()).save_pretrained(plain)
        bert = Transformer(plain, max_seq_length=512)
        pooling = Pooling(WIDTH, pooling_mode=("cls", "max", "mean"))
        SentenceTransformer(modules=[bert, pooling]).save(str(folder))
