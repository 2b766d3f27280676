"""Decodes prompts of token ids with the vocabulary of the model they are meant for.

A vocabulary is the file that the model's own tokenizer reads: a tiktoken file (one line per token: its bytes
in base64, and its number), or a `tokenizer.json` of Hugging Face. The same ids are different words in another
vocabulary, so a model that matches no pattern has none, and a prompt with one id that its vocabulary lacks (special
tokens, in tiktoken's files) is not decoded at all. Nothing is fetched from the network.
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

MAX_TOKEN_ID = 4 * 1024 * 1024
_Vocabulary = Callable[[Sequence[int]], str | None]


class Vocabularies:
    """Vocabularies by patterns of model names (`gpt-4o*`, `*`); the first matching pattern is used."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Load the files, which takes a moment. Raises `ConfigError` that names the invalid ones."""
        decoders: dict[Path, _Vocabulary] = {}
        problems = []
        for path in dict.fromkeys(files.values()):
            try:
                decoders[path] = _load(path.read_bytes())
            except (OSError, ValueError) as error:
                problems.append(f"inline.vocabularies: {path}: {error}")
        if problems:
            raise ConfigError(f"configuration: {len(problems)} problem(s)", problems)
        self._by_pattern = [(pattern, decoders[path]) for pattern, path in files.items()]

    def decode(self, model: str | None, ids: Sequence[object]) -> str | None:
        """Decode ids for a model; None without a vocabulary or with an id that it lacks."""
        decoder = next((value for pattern, value in self._by_pattern if fnmatchcase(model or "", pattern)), None)
        numbers = [number for number in ids if type(number) is int and number >= 0]
        return decoder(numbers) if decoder and len(numbers) == len(ids) else None

    def decode_prompts(self, extraction: Extraction) -> Extraction:
        """Replace the token ids of an extraction by segments where they can be decoded."""
        if not extraction.unscannable:
            return extraction
        segments, unscannable = list(extraction.segments), []
        for part in extraction.unscannable:
            text = self.decode(part.model, part.ids) if part.kind == "token_ids" else None
            if text is None:
                unscannable.append(part)
            else:
                segments.append(Segment(text, Source.USER, part.path))
        return replace(extraction, segments=tuple(segments), unscannable=tuple(unscannable))


def _load(data: bytes) -> _Vocabulary:
    return _from_tokenizer(data) if data.lstrip().startswith(b"{") else _from_tiktoken(data)


def _from_tiktoken(data: bytes) -> _Vocabulary:
    pieces: dict[int, bytes] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            pieces[int(rank)] = binascii.a2b_base64(token, strict_mode=True)
        except ValueError:
            raise ValueError(f"line {number} is no token of a vocabulary") from None
    if not pieces or not 0 <= min(pieces) <= max(pieces) < MAX_TOKEN_ID:
        raise ValueError("holds no vocabulary")
    table = [pieces.get(rank) for rank in range(max(pieces) + 1)]

    def text(ids: Sequence[int]) -> str | None:
        looked_up = [table[number] for number in ids if number < len(table)]
        token_bytes = [piece for piece in looked_up if piece is not None]
        return b"".join(token_bytes).decode("utf-8", "replace") if len(token_bytes) == len(ids) else None

    return text


def _from_tokenizer(data: bytes) -> _Vocabulary:
    from tokenizers import Tokenizer  # noqa: PLC0415 - 4 MB that few installations need

    try:
        tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # noqa: BLE001 - the library raises nothing more exact
        raise ValueError(f"is no tokenizer.json ({error})") from None

    def text(ids: Sequence[int]) -> str | None:
        if any(number >= MAX_TOKEN_ID or tokenizer.id_to_token(number) is None for number in ids):
            return None
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return text


NO_VOCABULARIES = Vocabularies({})
"""Used if no vocabulary is configured: token ids are never decoded."""
