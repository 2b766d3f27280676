"""The units of labelled files: one JSON object, CSV line or plain line each (`sidecar.evaluation.formats`).

A line with `messages` or `body` is a conversation, one with `text` and `bytes` or `kind` a document, any other with
`text` a row: one text, scanned as the scan API scans it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sidecar.errors import BodyError, ConfigError
from sidecar.evaluation import conversations
from sidecar.evaluation.conversations import Body
from sidecar.evaluation.formats import ATTACK, LINES, WORDS, Unreadable, read_values
from sidecar.types import SOURCE_OF, Channel, Label, ScanRequest, Segment

ATTACKS: frozenset[str] = frozenset({*Label, ATTACK}) - {Label.PII_DETECTED}
"""The labels of attacks: the four kinds, and `attack` for one whose kind nobody named."""
_TRUE = (True, "true", "1", 1)
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
        """Whether it is an attack: by one of the four labels, or of no named kind."""
        return bool(self.labels & ATTACKS)

    @property
    def unlabelled(self) -> bool:
        """Whether it counts nowhere, because nothing says what it is."""
        return not self.labels and not self.benign

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


def read_rows(path: Path, label: str | None = None) -> list[Row]:
    """Read a labelled file (`sidecar.evaluation.formats`). Raises `ConfigError` with the numbers of the bad lines.

    `label`: `attack` or `benign`, for lines that have none.
    """
    rows, problems = [], []
    for number, value in read_values(path, label):
        try:
            rows.append(row(value, number))
        except (ValueError, TypeError, KeyError, AttributeError, BodyError) as error:
            problems.append(f"line {number}: {error}"[:200])
    if problems:
        raise ConfigError(f"{path}: {len(problems)} bad line(s)", problems[:20])
    if rows and not any(row.labels or row.benign for row in rows):
        plain = path.name.endswith(LINES)
        each = "" if plain else 'write "label": "attack" or "label": "benign" on each, or '
        raise ConfigError(
            f"{path} has no labelled line", [f"{each}name one for all with --label attack or --label benign"]
        )
    return rows


def row(value: Any, number: int) -> Row:
    """One line of a file. Raises `TypeError`, `ValueError` or `BodyError` for an invalid one."""
    if isinstance(value, Unreadable):
        raise ValueError(value.reason)  # noqa: TRY004 - the line is no JSON at all
    if not isinstance(value, dict):
        raise TypeError("a JSON object is required")
    form = _form(value)
    labels, benign = _labels(value)
    channel = Channel(value.get("channel") or "direct")
    body, operation = _body(value, form, channel)
    return Row(
        id=str(value.get("id", number)),
        text=value.get("text", "") if form != "conversation" else "",
        labels=labels,
        benign=benign,
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


def _labels(value: Mapping[str, Any]) -> tuple[frozenset[str], bool]:
    """The labels of a line, and whether it is benign. A `label` alone says which of the two kinds it is."""
    labels = value.get("labels") or []
    _require_labels(labels)
    benign = value.get("benign") in _TRUE
    if (word := value.get("label")) not in {None, ""}:
        labels, benign = _with_word(labels, benign, str(word).strip().lower())
    if benign and ATTACKS & set(labels):
        raise ValueError("the line is labelled as an attack and as benign")
    return frozenset(labels), benign


def _with_word(labels: list[str], benign: bool, word: str) -> tuple[list[str], bool]:
    if word in LABELS:
        return [*labels, word], benign
    if word not in WORDS:
        raise ValueError(f"label: {word!r} is none of {', '.join((*WORDS, *LABELS))}")
    return ([*labels, ATTACK], benign) if WORDS[word] else (labels, True)


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
