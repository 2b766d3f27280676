"""Reads the blind sets that have been opened, as training rows.

A blind set measures one version of the model and is learnt by the next (`benchmarks/blind/README.md` says which). Its
requests become rows: the text that carries the attack, or its counterpart in the harmless twin. Its conversations are
read by `training.documents`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from training import rows as data
from training.rows import APPLICATION, CHANNELS, DIRECT, LABELS, Row

FOLDER = Path(__file__).parents[1] / "benchmarks" / "blind"
TEXTS = ["pairs_a", "pairs_b", "neighbours", "b_pairs", "b_skills", "b_about"]
"""Files of single texts."""
USERS = ["everyday", "frameworks", "overlap", "sysprompts", "b_everyday", "b_frameworks", "b_ordinary", "b_overlap"]
"""Files of requests whose last user turn is the text in question."""
SYSTEMS = ["retrieved2", "b_retrieved", "sysprompts"]
"""The same for the system prompt."""
TOOLS = ["poisoned", "poisoned2", "b_poisoned"]
"""The same for the tool definitions."""
CONVERSATIONS = ("conversations", "b_conversations")


def rows(folder: Path = FOLDER) -> list[Row]:
    """The rows of all opened sets; attacks have the position where they differ from their twin."""
    found = [_row(name, value, value["text"], value["channel"]) for name in TEXTS for value in lines(name, folder)]
    for names, role in ((USERS, "user"), (SYSTEMS, "system")):
        for name in names:
            found.extend(_row(name, value, _last(value, role), role) for value in lines(name, folder))
    for name in TOOLS:
        found.extend(_row(name, value, _definitions(value), "tools") for value in lines(name, folder))
    return data.placed(found)


def lines(name: str, folder: Path = FOLDER) -> Iterator[dict[str, Any]]:
    """The values of a file."""
    for line in gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).splitlines():
        yield orjson.loads(line)


def _row(name: str, value: dict[str, Any], text: str, written_by: str) -> Row:
    channel = {"user": DIRECT, "system": APPLICATION, "tools": APPLICATION, **CHANNELS}[written_by]
    return Row(
        id=f"{value['id']}/{written_by}",
        text=text,
        labels=frozenset(value["labels"]) & frozenset(map(str, LABELS)),
        channel=channel,
        source=f"blind_{name}",
        group=f"{name}/{value.get('pair') or value['id']}/{written_by}",
        lang=value["lang"],
        family=str(value.get("family") or value.get("kind") or name),
        from_corpus=True,
        paired="pair" in value,
    )


def _last(value: dict[str, Any], role: str) -> str:
    return str(next(m["content"] for m in reversed(value["messages"]) if m["role"] == role))


def _definitions(value: dict[str, Any]) -> str:
    return "\n\n".join(data.definition(tool) for tool in value["tools"])
