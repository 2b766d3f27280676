"""Reads a shipped model back as networks that can learn: `python -m training.thaw [--model FOLDER] OUT`.

Checkpoints of a training are hundreds of megabytes and live in no repository; what is shipped is all that is left of
them. Its int8 weights, times their scales, give networks whose features have a cosine of .995 (MiniLM) and .997 (the
glance) with the shipped ones in the mean. Writes `network.pt` and `glance.pt` into OUT, for `python -m training.train
--start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import numpy as np
import onnx
import torch
from onnx import numpy_helper

from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.pieces import FILE as PIECES
from sidecar.layers.scorer import FOLDER
from training.glance import Glance, numbers
from training.network import Network
from training.tables import Table

LAYER = ("attention.all", "attention.dense", "up", "down")
"""The products of a layer of MiniLM, in the order of the graph."""
Weights = dict[str, torch.Tensor]


def weights(path: Path) -> Weights:
    """All weights of an export by their names, int8 ones multiplied out; those of MiniLM's products are numbered."""
    stored = {part.name: numpy_helper.to_array(part) for part in onnx.load(path).graph.initializer}
    found = {name: torch.from_numpy(value.copy()) for name, value in stored.items()}
    for name in [name for name in stored if name.endswith("_quantized")]:
        plain = name.removesuffix("_quantized")
        scale, zero = stored[f"{plain}_scale"], stored[f"{plain}_zero_point"]
        found[plain] = torch.from_numpy((stored[name].astype(np.float32) - zero) * scale)
    return found


def network(folder: Path) -> Network:
    """MiniLM with its head."""
    found = weights(folder / "model.onnx")
    made = Network()
    embeddings, layers = made.bert.embeddings, made.bert.encoder.layer
    state = {
        "embeddings.word_embeddings.weight": _table(found, "words.book").all(),
        "embeddings.token_type_embeddings.weight": found["types.weight"],
        "embeddings.position_embeddings.weight": embeddings.position_embeddings.weight.detach().clone(),
        "embeddings.LayerNorm.weight": found["norm.weight"],
        "embeddings.LayerNorm.bias": found["norm.bias"],
    }
    state["embeddings.position_embeddings.weight"][: len(found["positions.weight"])] = found["positions.weight"]
    products = [found[name.removesuffix("_quantized")].T for name in found if name.endswith("_quantized")]
    for number in range(len(layers)):
        each = dict(zip(LAYER, products[number * len(LAYER) : (number + 1) * len(LAYER)], strict=True))
        state |= {f"encoder.layer.{number}.{name}": value for name, value in _layer(found, number, each)}
    made.bert.load_state_dict(state)
    _give_head(made, folder)
    return made.eval()


def glance(folder: Path) -> Glance:
    """The glance with its head; `folder` is the model's."""
    found = weights(folder / FOLDER / "model.onnx")
    table = _table(found, "glance.words.book")
    made = Glance(len(table.codes))
    made.words = table
    made.pieces.copy_(torch.tensor(numbers((folder / FOLDER / PIECES).read_bytes())))
    with torch.no_grad():
        for name, own in made.named_parameters():
            if not name.startswith("head."):
                value = found[f"glance.{name}"]
                own.copy_(value if value.shape == own.shape else value.T)
    _give_head(made, folder / FOLDER)
    return made.eval()


def _layer(found: Mapping[str, torch.Tensor], number: int, products: Weights) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights of one layer under their names in transformers."""
    parts = zip(products["attention.all"].chunk(3), found[f"attention.{number}.all.bias"].chunk(3), strict=True)
    for name, (weight, bias) in zip(("query", "key", "value"), parts, strict=True):
        yield f"attention.self.{name}.weight", weight
        yield f"attention.self.{name}.bias", bias
    for ours, theirs in (("attention.dense", "attention.output"), ("up", "intermediate"), ("down", "output")):
        of = f"attention.{number}.dense" if ours == "attention.dense" else f"{ours}.{number}"
        yield f"{theirs}.dense.weight", products[ours]
        yield f"{theirs}.dense.bias", found[f"{of}.bias"]
    for ours, theirs in ((f"attention.{number}.norm", "attention.output"), (f"norms.{number}", "output")):
        yield f"{theirs}.LayerNorm.weight", found[f"{ours}.weight"]
        yield f"{theirs}.LayerNorm.bias", found[f"{ours}.bias"]


def _table(found: Mapping[str, torch.Tensor], book: str) -> Table:
    """The word table: its book has a name, its codes and lengths are known by what they are."""
    codes = next(value for value in found.values() if value.dtype is torch.uint8 and value.dim() == 2)
    length = next(value for value in found.values() if value.dtype is torch.float16 and value.dim() == 1)
    made = Table(len(codes), codes.shape[1] * found[book].shape[2], found[book].shape[2])
    made.codes, made.book, made.length = codes, found[book], length
    return made


def _give_head(made: Network | Glance, folder: Path) -> None:
    head = Artefact.read(folder).head
    with torch.no_grad():
        made.head.weight.copy_(torch.from_numpy(head.weights))
        made.head.bias.copy_(torch.from_numpy(head.bias))


@click.command()
@click.option("--model", type=click.Path(path_type=Path, exists=True), default=SHIPPED["onnx"], show_default=True)
@click.argument("out", type=click.Path(path_type=Path))
def main(model: Path, out: Path) -> None:
    """Write two checkpoints to go on from."""
    out.mkdir(parents=True, exist_ok=True)
    for name, made in (("network", network(model)), ("glance", glance(model))):
        torch.save({"network": made.state_dict()}, out / f"{name}.pt")
        click.echo(f"{out / name}.pt", err=True)


if __name__ == "__main__":
    main()
