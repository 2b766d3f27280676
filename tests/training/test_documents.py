"""Twin of training/documents.py."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import orjson
import pytest

from training import documents
from training.documents import Document, Documents
from training.rows import APPLICATION, DIRECT, INDIRECT

LINES = "".join(f"line {n} of the document\n" for n in range(500))
CONVERSATION = {
    "id": "c",
    "kind": "tool_conversation",
    "lang": "en",
    "source": "composed",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": [{"type": "text", "text": "Read it."}]},
        {"role": "assistant", "content": "I will."},
        {"role": "tool", "content": "a file"},
    ],
    "tools": [{"function": {"description": "Reads.", "parameters": {"properties": {"p": {"description": "Where."}}}}}],
}


def written(folder: Path, *values: dict[str, object]) -> Path:
    """A data folder with these documents, half in each file."""
    (folder / "long").mkdir()
    for number, name in enumerate(documents.FILES):
        lines = b"\n".join(map(orjson.dumps, values[number::2]))
        (folder / "long" / name).write_bytes(gzip.compress(lines))
    return folder


def test_every_text_of_a_conversation_has_its_channel() -> None:
    """What the assistant said is left out, the prose of the tools is the application's."""
    texts = {(text.text, text.channel) for text in documents.texts(CONVERSATION)}
    assert texts == {
        ("You help.", APPLICATION),
        ("Read it.", DIRECT),
        ("a file", INDIRECT),
        ("Reads.\nWhere.", APPLICATION),
    }


@pytest.fixture
def without_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blind sets' conversations are not read."""
    monkeypatch.setattr(documents.blind, "CONVERSATIONS", ())


def test_the_conversations_of_the_opened_sets_are_read(tmp_path: Path) -> None:
    """A quarter of them is held back."""
    folder = written(tmp_path)
    holdout, training = ({v["id"] for v in documents.whole(folder, held=held)} for held in (True, False))
    assert len(holdout) + len(training) == 500
    assert 90 < len(holdout) < 160


@pytest.mark.usefixtures("without_conversations")
def test_a_source_is_held_back_whole(tmp_path: Path) -> None:
    """No source stands on both sides, and both files are read."""
    values = [{"id": f"{n}", "text": "x", "source": f"s{n % 40}", "kind": "readme"} for n in range(200)]
    folder = written(tmp_path, *values)
    holdout, training = (
        {entry["source"] for entry in documents.whole(folder, held=holdout)} for holdout in (True, False)
    )
    assert holdout
    assert not holdout & training
    assert len(holdout | training) == 40
    assert len(Documents.read(folder).documents) == sum(value["source"] in training for value in values)


@pytest.mark.parametrize("length", [100, 900, 5000])
def test_a_stretch_begins_and_ends_at_a_line(length: int) -> None:
    """About so long, anywhere in the text, and never half a word."""
    for seed in range(20):
        excerpt = documents.cut(LINES, Random(seed), length)
        assert f"\n{excerpt}" in f"\n{LINES}"
        assert len(excerpt) <= length + 200


def test_a_document_is_now_and_then_pasted_by_the_user() -> None:
    """Mostly it is read as somebody else's; what the application sends is always its own."""
    read, pasted = (
        Document("d", LINES, INDIRECT, "readme", "en", 1.0),
        Document("o", LINES, APPLICATION, "tools", "en", 1.0),
    )
    assert {Documents([read]).excerpt(Random(seed)).channel for seed in range(40)} == {DIRECT, INDIRECT}
    assert {Documents([pasted]).excerpt(Random(seed)).channel for seed in range(40)} == {APPLICATION}
