"""Long and agentic benign material: parts of real documents, tool results, turns and definitions.

The train part of `long/` in the data folder (documents with `text`, conversations with `messages` and `tools`), and the
conversations of the opened blind sets. A part is what a request would contain: some lines of one text, with its author.
Files are read once, and parts are drawn with the given random generator. An eighth of the sources and a quarter of the
blind sets' conversations are held out from training, each as a whole: the shipped model is calibrated on them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import orjson

from training import blind
from training.rows import APPLICATION, DIRECT, INDIRECT, Row, definition

FILES = ("long_train.jsonl.gz", "agentic_train.jsonl.gz")
ROLES = {"user": DIRECT, "tool": INDIRECT, "function": INDIRECT, "system": APPLICATION, "developer": APPLICATION}
"""Channels of the roles that a model reads; turns of the assistant are not read."""
APPLICATION_KINDS = frozenset({"system_prompt", "mcp_tool_list", "tool_schema", "function_calling", "agent_definition"})
"""Kinds of documents that an application sends as its own."""
PASTED_SHARE = 0.2
"""Share of documents treated as pasted into the user's turn."""
HOLDOUT_EVERY, CONVERSATIONS_HOLDOUT_EVERY = 8, 4
"""One in this many sources is held out, and of the opened blind sets' conversations."""
CONVERSATION_WEIGHT = 4.0
"""Weight of a conversation's text relative to a document's: there are few, and agents send these."""
SHORTEST, LONGEST = 200, 3_200
"""Characters of a part."""


@dataclass(frozen=True, slots=True)
class Document:
    """One harmless text of a document or conversation."""

    id: str
    text: str
    channel: int
    kind: str
    lang: str
    weight: float


class Documents:
    """All documents, to draw parts from."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._weights = list(accumulate(document.weight for document in documents))

    @classmethod
    def read(cls, folder: Path) -> Documents:
        """The training documents in the train part of `long/` in the data folder."""
        return cls([document for value in whole(folder, held=False) for document in texts(value)])

    def excerpt(self, rng: Random, longest: int = LONGEST) -> Row:
        """A part of one of them; long texts are drawn more often, by the root of their length."""
        document = rng.choices(self.documents, cum_weights=self._weights)[0]
        channel = DIRECT if document.channel == INDIRECT and rng.random() < PASTED_SHARE else document.channel
        text = cut(document.text, rng, rng.randint(SHORTEST, longest))
        return Row(
            document.id,
            text,
            frozenset(),
            channel,
            "documents",
            document.id,
            document.lang,
            document.kind,
            transformation="document",
        )


def whole(folder: Path, *, held: bool) -> Iterator[dict[str, Any]]:
    """The documents and conversations as stored: the holdout, or the others."""
    for name in FILES:
        for line in gzip.decompress((folder / "long" / name).read_bytes()).splitlines():
            value = orjson.loads(line)
            # Conversations are composed of several sources.
            if _held(value["source"] if "text" in value else value["id"], HOLDOUT_EVERY) == held:
                yield value
    for name in blind.CONVERSATIONS:
        yield from (v for v in blind.lines(name) if _held(v["id"], CONVERSATIONS_HOLDOUT_EVERY) == held)


def _held(group: str, every: int) -> bool:
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % every == 0


def cut(text: str, rng: Random, length: int) -> str:
    """A part of about this many characters that begins and ends at a line, or at a space where there is none."""
    if len(text) <= length:
        return text
    start = rng.randrange(-length // 4, len(text) - length)
    start = _border(text, max(0, start))
    return text[start : _border(text, start + length)] or text[start : start + length]


def _border(text: str, at: int) -> int:
    """The first position after this one where a line or a word begins."""
    if not at or at >= len(text):
        return min(at, len(text))
    line = text.find("\n", at, at + 200)
    space = text.find(" ", at, at + 60)
    return line + 1 if line >= 0 else space + 1 if space >= 0 else at


def texts(value: dict[str, Any]) -> Iterator[Document]:
    """The texts of a document or conversation that a model reads."""
    kind, lang = value["kind"], value.get("lang", "")
    if "text" in value:
        channel = APPLICATION if kind in APPLICATION_KINDS else INDIRECT
        yield _document(value["id"], value["text"], channel, kind, lang, 1.0)
        return
    for number, message in enumerate(value["messages"]):
        for text in _texts(message.get("content")):
            if message["role"] in ROLES and text.strip():
                yield _document(
                    f"{value['id']}/{number}", text, ROLES[message["role"]], kind, lang, CONVERSATION_WEIGHT
                )
    tools = "\n\n".join(definition(tool) for tool in value.get("tools") or ())
    if tools:
        yield _document(f"{value['id']}/tools", tools, APPLICATION, "tool_schema", lang, CONVERSATION_WEIGHT)


def _document(id_: str, text: str, channel: int, kind: str, lang: str, times: float) -> Document:
    return Document(id_, text, channel, kind, lang, times * len(text) ** 0.5)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
