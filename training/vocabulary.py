"""Reduces the base's vocabulary to the pieces that texts use, and writes it as a sentencepiece model.

The base has 250,002 pieces for a hundred languages, and their vectors are four fifths of its size. Kept are the pieces
that occur in the training texts, single characters, and the most frequent ones, which a Unigram vocabulary lists first.
Words whose pieces were removed are split into shorter pieces, as unknown words are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from training.base import Base

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
UNKNOWN = 3
COMMON, MIN_COUNT = 20_000, 8
"""How many of the most frequent pieces are kept, and the count from which a piece is kept."""
CHARACTERS = 4_000
"""Characters of a text that are counted: a long document mostly repeats the words of its first page."""
Numbers = npt.NDArray[np.int64]


def count(base: Base, texts: Iterable[str]) -> Numbers:
    """How often each piece of the base occurs."""
    pieces, counts = (
        SentencePieceTokenizer(model(base, np.arange(len(base.pieces)))),
        np.zeros(len(base.pieces), np.int64),
    )
    for text in texts:
        np.add.at(counts, list(pieces(text[:CHARACTERS])), 1)
    return counts


def chosen(base: Base, counts: Numbers) -> Numbers:
    """The numbers of the pieces that are kept, in order."""
    alone = np.array([len(piece.strip("\u2581")) <= 1 for piece in base.pieces])
    return np.flatnonzero((np.arange(len(alone)) < COMMON) | (counts >= MIN_COUNT) | alone)


def model(base: Base, numbers: Numbers) -> bytes:
    """A sentencepiece model with these pieces, in this order; the special ones must be the first four."""
    result = _empty()
    del result.pieces[:]
    kinds = {0: "CONTROL", 1: "CONTROL", 2: "CONTROL", UNKNOWN: "UNKNOWN"}
    for number in numbers.tolist():
        piece = SPECIAL[number] if number in kinds else base.pieces[number]
        kind = ModelProto.SentencePiece.Type.Value(kinds.get(number, "NORMAL"))
        result.pieces.add(piece=piece, score=float(base.scores[number]), type=kind)
    for name, number in (("bos_id", 0), ("pad_id", 1), ("eos_id", 2), ("unk_id", UNKNOWN)):
        setattr(result.trainer_spec, name, number)
    result.trainer_spec.vocab_size = len(result.pieces)
    result.trainer_spec.ClearField("input")  # a temporary path, which would differ from run to run
    return bytes(result.SerializeToString())


def _empty() -> ModelProto:
    """A Unigram model with the normalisation that the base was trained with: NFKC, and one space for many."""
    written = BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("a few words for a vocabulary of nothing\n" * 4, "utf-8")
        SentencePieceTrainer.train(
            input=str(text),
            model_writer=written,
            vocab_size=24,
            hard_vocab_limit=False,
            model_type="unigram",
            normalization_rule_name="nmt_nfkc",
            minloglevel=2,
        )
    return ModelProto.FromString(written.getvalue())
