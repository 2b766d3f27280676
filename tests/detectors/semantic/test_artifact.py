"""Twin of sidecar/detectors/semantic/artifact.py."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tiny_model

from sidecar.detectors.semantic.artifact import (
    APPLICATION_TOKEN_TYPE,
    DEFINITION,
    LONG_PROMPT,
    SHIPPED,
    Calibration,
    ModelArtifact,
)
from sidecar.detectors.semantic.sentencepiece import VOCABULARY_FILE, SentencePieceTokenizer
from sidecar.errors import ModelError
from sidecar.types import Label


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model folder."""
    (tmp_path / "model.onnx").write_bytes(b"weights")
    return tiny_model.write_folder(tmp_path, tiny_model.manifest())


def test_a_whole_folder_is_read(folder: Path) -> None:
    """Manifest and head round-trip."""
    read = ModelArtifact.read(folder)
    assert (read.manifest.name, read.head.attack) == ("tiny", 0)
    assert set(read.head.labels) == set(Label) - {Label.PII_DETECTED}


@pytest.mark.parametrize("name", ["model.json", "model.onnx", "head.npz"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    """The error names the missing file."""
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        ModelArtifact.read(folder)


@pytest.mark.parametrize("name", ["model.onnx", "head.npz"])
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    """One changed byte is found by the digest."""
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}.*damaged"):
        ModelArtifact.read(folder)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"name": 1', b"\xff"])
def test_a_description_that_makes_no_sense_is_refused(folder: Path, content: bytes) -> None:
    """An incomplete manifest is rejected."""
    (folder / "model.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.json"):
        ModelArtifact.read(folder)


def test_logits_that_are_no_numbers_are_an_error() -> None:
    """Logits that are not finite raise an error."""
    with pytest.raises(ArithmeticError):
        tiny_model.head().logits(np.full((1, len(tiny_model.WORDS)), math.nan, np.float32))


def test_calibration_is_a_probability() -> None:
    """It rises with the logit and stays inside 0..1 at the extremes."""
    values = [Calibration(slope=0.8, offset=-0.5).probability(logit) for logit in (-1e9, -3, 0, 3, 1e9)]
    assert values == sorted(values)
    assert 0 <= values[0] < values[-1] <= 1


def test_longer_prompts_and_definitions_block_earlier_than_short_texts_of_the_application() -> None:
    """In the shipped model; a model without these calibrations judges all of them alike."""
    manifest = ModelArtifact.read(SHIPPED["onnx"]).manifest
    channels = (DEFINITION, LONG_PROMPT, APPLICATION_TOKEN_TYPE)
    chances = [manifest.calibration_for(channel).probability(2.6) for channel in channels]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] >= 0.9 > chances[1]
    plain = manifest.model_copy(update={"long_prompts": None, "definitions": None})
    assert {plain.calibration_for(channel) for channel in channels} == {manifest.application}
    assert plain.model_copy(update={"application": None}).calibration_for(DEFINITION) == manifest.calibration


@pytest.mark.parametrize("engine", sorted(SHIPPED))
def test_the_shipped_folders_are_whole(engine: str) -> None:
    """What the package ships passes its own check, and is for the engine that picks it."""
    assert ModelArtifact.read(SHIPPED[engine]).manifest.engine == engine  # type: ignore[index]


def test_the_model_card_has_the_size_of_the_vocabulary() -> None:
    """A card of an earlier model would have another one."""
    pieces = len(SentencePieceTokenizer.read(SHIPPED["onnx"] / VOCABULARY_FILE))
    assert f"{pieces:,} pieces" in (SHIPPED["onnx"].parent / "README.md").read_text("utf-8")
