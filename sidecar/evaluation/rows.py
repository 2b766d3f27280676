"""Reads labelled files: one JSON object per line, plain or gzipped.

A line with `messages` or `body` is a conversation, one with `text` and `bytes` or `kind` a document, any other with
`text` a row: one text, scanned as the scan API scans it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sidecar.errors import BodyError, ConfigError
from sidecar.evaluation import conversations
from sidecar.evaluation.conversations import Body
from sidecar.types import SOURCE_OF, Channel, Label, ScanRequest, Segment
from sidecar.util import json

ATTACKS = frozenset(Label) - {Label.PII_DETECTED}
Form = Literal["row", "document", "conversation"]
LABELS = tuple(str(label) for label in Label)
WEAK_PII = "pii_weak"
"""A `kind` that is not a kind of document: rows whose personal data nobody verified."""
SIZES = ((2_000, "< 2 kB"), (8_000, "2-8 kB"), (32_000, "8-32 kB"), (200_000, "32-200 kB"))
LARGEST = "> 200 kB"


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled unit, with the field names of the data format.

    `pair` names the benign twin of an attack (its id, or the same `pair` on both). `body` is the request of a
    conversation or a document, and `operation` the API operation it is sent to.
    """

    id: str
    text: str
    labels: frozenset[str]
    benign: bool
    source: str = ""
    lang: str = ""
    channel: Channel = Channel.DIRECT
    system_prompt: str | None = None
    hard_negative: bool = False
    pii_weak: bool = False
    pii_regex: bool = False
    kind: str = ""
    pair: str = ""
    form: Form = "row"
    size: int = 0
    body: Body | None = None
    operation: str = ""

    @property
    def attack(self) -> bool:
        """Whether it has one of the four attack labels."""
        return bool(self.labels & ATTACKS)

    @property
    def bytes(self) -> int:
        """UTF-8 length of its content, as stated in the file or as counted."""
        return self.size or len(self.content.encode("utf-8", "surrogatepass"))

    @property
    def size_class(self) -> str:
        """The size class of that length."""
        return next((name for limit, name in SIZES if self.bytes < limit), LARGEST)

    @property
    def content(self) -> str:
        """Its text, or every string of its request."""
        return self.text or "\n".join(conversations.strings(self.body))

    def request(self) -> ScanRequest:
        """The scan request that the scan API would make of a row."""
        return ScanRequest((Segment(self.text, SOURCE_OF[self.channel]),), self.system_prompt)

    def requests(self, *, growing: bool = False) -> Iterator[Body]:
        """The bodies of a document or a conversation; `growing`: one for each turn of the model."""
        if self.body is not None:
            yield from conversations.growing(self.body) if growing else (self.body,)


def read_rows(path: Path) -> list[Row]:
    """Read a labelled file, plain or gzipped. Raises `ConfigError` with the numbers of the bad lines."""
    rows, problems = [], []
    try:
        for number, line in _lines(path):
            try:
                rows.append(row(json.loads(line), number))
            except (ValueError, TypeError, KeyError, AttributeError, BodyError) as error:
                problems.append(f"line {number}: {type(error).__name__}: {error}"[:200])
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read", [str(error)]) from None
    if problems:
        raise ConfigError(f"{path}: {len(problems)} bad line(s)", problems[:20])
    if rows and not any(row.labels or row.benign for row in rows):
        raise ConfigError(f"{path} has no labelled line", ["attacks have labels, harmless texts benign: true"])
    return rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def row(value: Any, number: int) -> Row:
    """One line of a file. Raises `TypeError`, `ValueError` or `BodyError` for an invalid one."""
    if not isinstance(value, dict):
        raise TypeError("a JSON object is wanted")
    form = _form(value)
    _require_labels(value.get("labels") or [])
    channel = Channel(value.get("channel") or "direct")
    body, operation = _body(value, form, channel)
    return Row(
        id=str(value.get("id", number)),
        text=value.get("text", "") if form != "conversation" else "",
        labels=frozenset(value.get("labels") or ()),
        benign=bool(value.get("benign")),
        source=str(value.get("source", "")),
        lang=str(value.get("lang", "")),
        channel=channel,
        system_prompt=value.get("system_prompt"),
        hard_negative=bool(value.get("hard_negative")),
        pii_weak=value.get("kind") == WEAK_PII,
        pii_regex=bool(value.get("pii_regex")),
        kind=str(value.get("kind") or ""),
        pair=str(value.get("pair") or ""),
        form=form,
        size=int(value.get("bytes") or 0),
        body=body,
        operation=operation,
    )


def _require_labels(labels: Any) -> None:
    if not isinstance(labels, list):
        raise TypeError("labels: a list is required")
    if unknown := [label for label in labels if label not in LABELS]:
        raise ValueError(f"labels: {unknown[0]!r} is none of {', '.join(LABELS)}")


def _form(value: Mapping[str, Any]) -> Form:
    if isinstance(value.get("body"), dict):
        return "conversation"
    if "messages" in value or "body" in value:
        if not isinstance(value.get("messages"), list):
            raise TypeError("messages: a list, or body: an object, is required")
        return "conversation"
    if not isinstance(value.get("text"), str):
        raise TypeError("text: a string is required")
    return "document" if "bytes" in value or (value.get("kind") or WEAK_PII) != WEAK_PII else "row"


def _body(value: Mapping[str, Any], form: Form, channel: Channel) -> tuple[Body | None, str]:
    if form == "row":
        return None, ""
    if form == "document":
        indirect = channel is Channel.INDIRECT
        system = value.get("system_prompt")
        return conversations.document(value["text"], indirect=indirect, system=system), conversations.OPERATIONS["chat"]
    operation = conversations.operation(value)
    return (value["body"] if "body" in value else conversations.conversation(value, operation)), operation
