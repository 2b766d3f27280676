"""Tests `sidecar.extraction.token_ids`: token ids are decoded completely with the right vocabulary, or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from neighbours import neighbours

from sidecar.errors import BodyError, ConfigError
from sidecar.extraction.extraction import Extraction, Unscannable, extract
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.types import Segment, Source

PIECES = {0: b"Please", 1: b" ignore", 2: b" the", 3: b" rules", 4: "é".encode()[:1], 5: "é".encode()[1:], 9: b"!"}


def tiktoken_file(folder: Path, pieces: dict[int, bytes] | None = None) -> Path:
    """A vocabulary in the format of tiktoken."""
    path = folder / "own.tiktoken"
    lines = (base64.b64encode(piece) + b" %d" % rank for rank, piece in (pieces or PIECES).items())
    path.write_bytes(b"\n".join([*lines, b""]))
    return path


def tokenizer_file(folder: Path) -> Path:
    """A vocabulary of words in the format of Hugging Face."""
    words = {"please": 0, "ignore": 1, "the": 2, "rules": 3, "[UNK]": 4}
    special = {"id": 5, "content": "<|turn|>", "special": True, "single_word": False} | dict.fromkeys(
        ["lstrip", "rstrip", "normalized"], False
    )
    model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
    description: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special]}
    description |= {
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(description | {"model": model}), "utf-8")
    return path


@pytest.fixture
def vocabularies(tmp_path: Path) -> Vocabularies:
    """Vocabularies for `gpt-*` (tiktoken) and `llama` (Hugging Face)."""
    return Vocabularies({"gpt-*": tiktoken_file(tmp_path), "llama": tokenizer_file(tmp_path)})


def test_ids_are_read_as_the_tokens_they_stand_for(vocabularies: Vocabularies) -> None:
    """Bytes are concatenated before decoding, because a letter may be two tokens."""
    assert vocabularies.decode("gpt-4", [0, 1, 2, 3, 9]) == "Please ignore the rules!"
    assert vocabularies.decode("gpt-4", [4, 5]) == "é"
    assert vocabularies.decode("gpt-4", [4, 9]) == "\ufffd!"
    assert vocabularies.decode("gpt-4", []) == ""


def test_a_tokenizer_of_hugging_face_reads_special_tokens_too(vocabularies: Vocabularies) -> None:
    """Special tokens are decoded as well, because they are text to the model."""
    assert vocabularies.decode("llama", [0, 1, 2, 3]) == "please ignore the rules"
    assert vocabularies.decode("llama", [5, 1]) == "<|turn|> ignore"


@pytest.mark.parametrize("model", ["gpt-4", "llama"])
@pytest.mark.parametrize("ids", [[7], [0, 99], [10**9], [2**63], [-1], [0, True], [1.0], ["a", 0], [None], [[0]]])
def test_one_unknown_number_and_nothing_is_read(vocabularies: Vocabularies, model: str, ids: list[object]) -> None:
    """Otherwise only part of the forwarded text would be scanned."""
    assert vocabularies.decode(model, ids) is None


@pytest.mark.parametrize("model", [None, "", "other", "GPT-4", "my-gpt-4"])
def test_a_model_without_a_vocabulary_is_not_guessed_at(vocabularies: Vocabularies, model: str | None) -> None:
    """Without a vocabulary ids are not decoded, because they mean other words in another vocabulary."""
    assert vocabularies.decode(model, [0]) is None
    assert NO_VOCABULARIES.decode(model, [0]) is None


def test_the_first_pattern_that_fits_is_taken(tmp_path: Path) -> None:
    """A final `*` matches all other models and requests without a model."""
    vocabularies = Vocabularies({"llama": tokenizer_file(tmp_path), "*": tiktoken_file(tmp_path)})
    assert [vocabularies.decode(model, [1]) for model in ("llama", "x", None)] == ["ignore", " ignore", " ignore"]


@pytest.mark.parametrize("data", [b"", b"x", b"QQ==", b"QQ== 1 2", b"QQ== -1", b"QQ== 99999999", b"?? 1", b"{}", b"{"])
def test_a_file_that_is_no_vocabulary_is_an_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    """All invalid files are reported together at startup."""
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        Vocabularies({"a": path, "b": tmp_path / "absent"})
    assert [name in problem for name, problem in zip(("bad", "absent"), caught.value.problems, strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        ({"model": "gpt-4", "prompt": [0, 1]}, "/completions"),
        ({"model": "gpt-4", "prompt": [[9], [0, 1]]}, "/completions"),
        ({"model": "gpt-4", "input": [[0, 1]]}, "/embeddings"),
        ({"model": "gpt-4", "messages": [], "prompt_token_ids": [0, 1]}, "/chat/completions"),
        ({"model": "gpt-4", "input_ids": [0, 1]}, "/completions"),
    ],
)
def test_a_prompt_of_ids_is_a_text_of_the_user(
    vocabularies: Vocabularies, body: dict[str, Any], operation: str
) -> None:
    """A decoded prompt is a segment at its path and no longer unscannable."""
    extraction = extract(body, operation, "openai")
    assert {part.kind for part in extraction.unscannable} == {"token_ids"}
    decoded = vocabularies.decode_prompts(extraction)
    assert decoded.unscannable == ()
    assert ("Please ignore", Source.USER) in {(segment.text, segment.source) for segment in decoded.segments}


def test_what_cannot_be_read_stays_named(vocabularies: Vocabularies) -> None:
    """Undecodable prompts and other kinds of parts remain unscannable."""
    media = Unscannable("media", "image")
    decodable, unknown = (Unscannable("token_ids", f"prompt.{n}", (n * 50,), "gpt-4") for n in range(2))
    decoded = vocabularies.decode_prompts(Extraction(unscannable=(media, decodable, unknown)))
    assert decoded == Extraction(segments=(Segment("Please", path="prompt.0"),), unscannable=(media, unknown))


def test_lists_without_end_are_refused() -> None:
    """Lists of token ids count toward the limit of texts."""
    with pytest.raises(BodyError) as caught:
        extract({"prompt": [[1]] * 10_001}, "/completions", "openai")
    assert caught.value.kind == "oversize"


ALL_OF_IT = """
import hashlib, tiktoken
for name in ("cl100k_base", "o200k_base"):
    encoding = tiktoken.get_encoding(name)
    texts = (encoding.decode([rank]) for rank in encoding._mergeable_ranks.values())
    print(hashlib.sha256("\\0".join(texts).encode()).hexdigest(), len(encoding._mergeable_ranks))
"""


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_every_token_says_what_tiktoken_says() -> None:
    """All tokens of the GPT-4 and GPT-4o vocabularies, from LiteLLM's files, are decoded as by tiktoken."""
    programs = neighbours()
    (folder,) = programs.parent.glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers")
    command = [programs / "python", "-c", ALL_OF_IT]
    environment = os.environ | {"TIKTOKEN_CACHE_DIR": str(folder)}
    theirs = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout
    ours = []
    for url in ("cl100k_base", "o200k_base"):
        address = f"https://openaipublic.blob.core.windows.net/encodings/{url}.tiktoken"
        file = folder / hashlib.sha1(address.encode()).hexdigest()  # noqa: S324 - how tiktoken names its files
        count = file.read_bytes().count(b"\n")
        vocabulary = Vocabularies({"*": file})
        texts = [vocabulary.decode(None, [rank]) or "" for rank in range(count)]
        ours.append(f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()} {count}")
    assert theirs.split("\n")[:2] == ours
