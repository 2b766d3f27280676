"""Takes text into pieces of words of many languages: the tokenizer of the glance.

sentencepiece keeps 36,000 of them in 5 MB and reads a text of 600 characters in 20 microseconds; the same vocabulary
took 27 MB and 147 microseconds with `tokenizers` (1,777 rows of the corpus). It normalises by itself: NFKC, and one
space for many.
"""

from __future__ import annotations

from pathlib import Path

from sentencepiece import SentencePieceProcessor

from sidecar.errors import ModelError
from sidecar.layers.embedding import Padding

FILE = "pieces.model"


class Pieces:
    """A vocabulary, and how a text falls into it."""

    def __init__(self, model: bytes) -> None:
        """Raises `RuntimeError` if these bytes are no model of sentencepiece."""
        self._processor = SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)

    @classmethod
    def read(cls, path: Path) -> Pieces:
        """Raises `ModelError` that names the file."""
        try:
            return cls(path.read_bytes())
        except (OSError, RuntimeError) as error:
            raise ModelError(f"{path}: is not a vocabulary of sentencepiece ({type(error).__name__})") from None

    def __len__(self) -> int:
        """How many there are."""
        return int(self._processor.get_piece_size())

    @property
    def unknown(self) -> int:
        """The number that stands for what it has no piece for."""
        return int(self._processor.unk_id())

    def padding(self, *, channels: bool) -> Padding:
        """How windows of pieces become arrays."""
        marks = self._processor
        return Padding((marks.bos_id(),), (marks.eos_id(),), marks.unk_id(), channels)

    def __call__(self, text: str) -> tuple[int, ...]:
        """The numbers of its pieces, without marks for begin and end."""
        return tuple(self._processor.encode(text))
