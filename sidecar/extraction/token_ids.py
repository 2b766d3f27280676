"""Token ids in, text out: what a prompt made of numbers says to the model that it is for.

A vocabulary is the file that the model's own tokenizer reads: one of tiktoken's (a line for each token: its bytes
in base64, and its number), or a `tokenizer.json` of Hugging Face. The same numbers are other words in another
vocabulary, so a model that no pattern names has none, and a prompt with one number that its vocabulary does not
hold (special tokens, in tiktoken's files) is not read at all. Nothing is ever fetched from a network.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.extraction.extraction import Extraction
from sidecar.types import Segment, Source

MOST_TOKENS = 4 * 1024 * 1024
_Vocabulary = Callable[[Sequence[int]], str | None]


class Vocabularies:
    """Vocabularies by patterns of model names (`gpt-4o*`, `*`); the first pattern that fits is taken."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Reads the files, which takes a moment. Raises `ConfigError` that names those which are none."""
        read: dict[Path, _Vocabulary] = {}
        problems = []
        for path in dict.fromkeys(files.values()):
            try:
                read[path] = _load(path.read_bytes())
            except (OSError, ValueError) as error:
                problems.append(f"inline.vocabularies: {path}: {error}")
        if problems:
            raise ConfigError(f"configuration: {len(problems)} problem(s)", problems)
        self._by_pattern = [(pattern, read[path]) for pattern, path in files.items()]

    def text(self, model: str | None, ids: Sequence[object]) -> str | None:
        """What these ids say to this model; None if that cannot be told."""
        found = next((read for pattern, read in self._by_pattern if fnmatchcase(model or "", pattern)), None)
        numbers = [number for number in ids if type(number) is int and number >= 0]
        return found(numbers) if found and len(numbers) == len(ids) else None

    def read(self, found: Extraction) -> Extraction:
        """The same, with segments in place of the token ids that can be read."""
        if not found.unscannable:
            return found
        segments, left = list(found.segments), []
        for part in found.unscannable:
            text = self.text(part.model, part.ids) if part.kind == "token_ids" else None
            if text is None:
                left.append(part)
            else:
                segments.append(Segment(text, Source.USER, part.path))
        return replace(found, segments=tuple(segments), unscannable=tuple(left))


def _load(data: bytes) -> _Vocabulary:
    return _of_tokenizer(data) if data.lstrip().startswith(b"{") else _of_tiktoken(data)


def _of_tiktoken(data: bytes) -> _Vocabulary:
    pieces: dict[int, bytes] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            pieces[int(rank)] = binascii.a2b_base64(token, strict_mode=True)
        except ValueError:
            raise ValueError(f"line {number} is no token of a vocabulary") from None
    if not pieces or not 0 <= min(pieces) <= max(pieces) < MOST_TOKENS:
        raise ValueError("holds no vocabulary")
    table = [pieces.get(rank) for rank in range(max(pieces) + 1)]

    def text(ids: Sequence[int]) -> str | None:
        found = [table[number] for number in ids if number < len(table)]
        known = [piece for piece in found if piece is not None]
        return b"".join(known).decode("utf-8", "replace") if len(known) == len(ids) else None

    return text


def _of_tokenizer(data: bytes) -> _Vocabulary:
    from tokenizers import Tokenizer  # noqa: PLC0415 - 4 MB that hardly anybody needs here

    try:
        tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # noqa: BLE001 - the library raises nothing more exact
        raise ValueError(f"is no tokenizer.json ({error})") from None

    def text(ids: Sequence[int]) -> str | None:
        if any(number >= MOST_TOKENS or tokenizer.id_to_token(number) is None for number in ids):
            return None
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return text


NONE = Vocabularies({})
"""For where no vocabulary is set: every prompt of token ids stays what it is."""
