"""Reads the blind sets that have been opened, as training rows.

A blind set measures one version of the model and is learnt by the next (`benchmarks/blind/README.md` says which). Its
requests become rows: the text that carries the attack, or its counterpart in the harmless twin. Its conversations are
read by `training.documents`. Of its attacks over several turns (arcs) the user's turns are joined, as they are when
scanned.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from sidecar.types import Label
from training import rows as data
from training.rows import APPLICATION, CHANNELS, DIRECT, LABELS, Row

FOLDER = Path(__file__).parents[1] / "benchmarks" / "blind"
TEXTS = [
    *("pairs_a", "pairs_b", "neighbours", "b_pairs", "b_skills", "b_about", "c_code", "c_steering", "c_traffic"),
    *("d_open", "f_read", "f_turns", "g_read", "g_turns", "i_read"),
]
"""Files of single texts."""
USERS = [
    *("everyday", "frameworks", "overlap", "sysprompts"),
    *("b_everyday", "b_frameworks", "b_ordinary", "b_overlap", "e_everyday"),
]
"""Files of requests whose last user turn is the text in question."""
SYSTEMS = ["retrieved2", "b_retrieved", "e_retrieved", "g_retrieved", "sysprompts"]
"""The same for the system prompt."""
TOOLS = ["poisoned", "poisoned2", "b_poisoned", "e_tools", "f_tools", "g_tools"]
"""The same for the tool definitions."""
CONVERSATIONS = ("conversations", "b_conversations", "e_conv1", "e_conv2", "g_conv")
ARCS = ("i_arcs_open", "j_arcs_open")
"""Files of conversations that become an attack (at the message `reached`), and of harmless ones."""


def rows(folder: Path = FOLDER) -> list[Row]:
    """The rows of all opened sets; attacks have the position where they differ from their twin."""
    found = [_row(name, value, value["text"], value["channel"]) for name in TEXTS for value in lines(name, folder)]
    for names, role in ((USERS, "user"), (SYSTEMS, "system")):
        for name in names:
            found.extend(_row(name, value, _last(value, role), role) for value in lines(name, folder))
    for name in TOOLS:
        found.extend(_row(name, value, _definitions(value), "tools") for value in lines(name, folder))
    return [*data.placed(found), *(row for name in ARCS for value in lines(name, folder) for row in _arc(name, value))]


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


def _arc(name: str, value: dict[str, Any]) -> Iterator[Row]:
    """The user's turns until the attack has its aim, and without the last of them; of a harmless conversation all."""
    end = len(value["messages"]) if value["benign"] else value["reached"] + 1
    turns = [m["content"] for m in value["messages"][:end] if m["role"] == "user"]
    for number, part in enumerate((turns, turns[:-1])):
        row = _row(name, {"labels": () if value["benign"] else (Label.JAILBREAK,)} | value, "\n".join(part), "user")
        yield replace(row, id=f"{row.id}/{number}", group=f"{row.group}/{number}")


def _last(value: dict[str, Any], role: str) -> str:
    return str(next(m["content"] for m in reversed(value["messages"]) if m["role"] == role))


def _definitions(value: dict[str, Any]) -> str:
    return "\n\n".join(data.definition(tool) for tool in value["tools"])
