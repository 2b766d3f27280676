"""Reads the labelled rows for training: our own corpus, and the permissively licensed part of the data folder."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from sidecar.types import Label

CORPUS = Path(__file__).parent / "corpus"
LABELS = tuple(label for label in Label if label is not Label.PII_DETECTED)
OUTPUTS = ("attack", *(str(label) for label in LABELS))
DIRECT, INDIRECT, APPLICATION = range(3)
CHANNELS = {"direct": DIRECT, "indirect": INDIRECT, "application": APPLICATION}
BINARY_SOURCES = ("deepset_", "piguard_", "injecguard_")
"""Sources whose single labels are guesses: only attack or benign is learnt from them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text. Rows of one `group` stay on the same side of any split."""

    id: str
    text: str
    labels: frozenset[str]
    channel: int
    """Who wrote it: 0 the user, 1 a third party whose text the assistant reads, 2 the application."""
    source: str
    group: str
    lang: str = ""
    family: str = ""
    from_corpus: bool = False
    transformation: str = ""
    """The name of the transformation, if the row was generated from another."""
    place: tuple[int, int] | None = None
    """The attack's position in the text, if known: offsets in code points."""
    paired: bool = False
    """Whether the rows of its group are one text with and without the attack."""
    pii: bool = False
    """Whether it contains personal data: without an attack it is benign to this model, and in no figure."""

    @property
    def indirect(self) -> bool:
        """Whether it comes from outside the conversation."""
        return self.channel == INDIRECT

    @property
    def attack(self) -> bool:
        """Whether it has any of the four attack labels."""
        return bool(self.labels)

    @property
    def fine(self) -> bool:
        """Whether the single labels are reliable."""
        return not self.source.startswith(BINARY_SOURCES)


def read(path: Path) -> list[Row]:
    """Rows that are attack or benign; rows with PII alone are benign to this model, and suspects are left out."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        values = [orjson.loads(line) for line in file if line.strip()]
    return [_row(value) for value in values if not value.get("suspect_label")]


def corpus(folder: Path = CORPUS) -> list[Row]:
    """Our own rows that the recipe reads, near-duplicates by spelling removed."""
    rows: dict[str, Row] = {}
    for path in sorted(path for path in folder.glob("*.jsonl") if path.stem not in UNUSED):
        for row in read(path):
            rows.setdefault(hashlib.sha256(" ".join(row.text.lower().split()).encode()).hexdigest(), row)
    return placed(list(rows.values()))


def placed(rows: Sequence[Row]) -> list[Row]:
    """The same rows; an attack with a benign twin gets the position where the two differ."""
    calm: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if not row.attack:
            calm[row.group].append(row.text)
    return [replace(row, place=difference(row.text, calm[row.group])) if row.attack else row for row in rows]


def difference(text: str, twins: Sequence[str]) -> tuple[int, int] | None:
    """The span of the text that none of its twins has, if it is less than half of it."""
    best = min((_between(text, twin) for twin in twins), key=lambda span: span[1] - span[0], default=(0, len(text)))
    return best if 0 < best[1] - best[0] < len(text) / 2 else None


def _between(text: str, twin: str) -> tuple[int, int]:
    head = _shared(text, twin)
    return head, len(text) - _shared(text[head:][::-1], twin[head:][::-1])


def _shared(first: str, other: str) -> int:
    """The length of the common prefix."""
    return next(
        (at for at, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other))
    )


def permissive(data: Path) -> list[Row]:
    """`train.jsonl.gz` of the data folder; files with unclear licences are never opened."""
    return read(data / "train.jsonl.gz")


_NAMES = """
agents_tasks_and_messages extraction_and_service_bots instruction_files_and_pages languages_hi_ko_nl_el_th_vi_id
languages_uk_bn_fa_ar_and_others orders_of_users ordinary_requests_de_fr_nl_it_es_pt_pl_en
ordinary_requests_hi_ar_ru_tr_th_and_others ordinary_requests_zh_ja_ko_vi personas_and_fiction scenarios_and_quotations
system_and_framework_prompts texts_about_attacks_and_orders tool_definitions tool_results_planted
turns_of_whole_conversations
turns_of_coding_agents turns_of_everyday_chats turns_of_business_assistants tool_results_of_many_kinds
tool_definitions_and_system_prompts en_direct_techniques documents_with_a_foreign_line languages_24_mixed
tool_results_and_mails_pairs users_turns_steering_pairs documents_and_locale_files direct_techniques_pairs
"""
NEWEST = frozenset(_NAMES.split())
"""Corpus files with texts as applications send them. The others hold short single rows."""
LAST = frozenset({"mails_and_messages_pairs", "definitions_retrieval_pages_pairs"})
"""Corpus files that only the last phase of the training reads."""
UNUSED = frozenset(
    {
        *("agents_reading_pairs", "definitions_of_servers_pairs", "definitions_poisoned_pairs"),
        *("retrieved_passages_pairs", "users_turns_pairs"),
        *("definitions_hidden_aims_pairs", "prompts_with_insertions_pairs", "read_by_agents_varied_pairs"),
        *("users_turns_varied_pairs", "en_agents_at_work_pairs", "en_users_pairs"),
        *("ar_tr_fa_he_el_pairs", "de_fr_nl_pairs", "es_pt_it_pairs"),
        *("ru_uk_pl_cs_sv_fi_pairs", "zh_ja_ko_hi_vi_id_th_bn_pairs"),
        *("application_texts_varied_pairs", "asia_all_kinds_pairs", "definitions_of_connectors_pairs"),
        *("en_plain_styles_pairs", "long_texts_one_line_pairs", "pages_code_and_papers_pairs"),
        *("prompts_with_memories_pairs", "read_by_assistants_subtle_pairs", "results_of_assistants_tools_pairs"),
        *("south_and_east_all_kinds_pairs", "turns_of_arcs_pairs", "users_at_business_bots_pairs"),
        *("users_personas_frames_pairs", "users_takeovers_pairs", "west_and_north_all_kinds_pairs"),
    }
)
"""Corpus files written after the shipped model was trained: the recipe does not read them."""
LARGE = 1_000
"""Rows of a public source from which each further one counts half."""


@dataclass(frozen=True)
class Times:
    """How often a row of each kind is drawn, relative to the others."""

    public: float
    blind: float
    newest: float
    last: float
    short: float
    """Of the corpus files in neither list."""

    def of(self, rows: Sequence[Row]) -> list[float]:
        """For each row; large public sources are damped by the root of their size."""
        size = Counter(row.source for row in rows)
        return [self._of(row, size[row.source]) for row in rows]

    def _of(self, row: Row, size: int) -> float:
        if not row.from_corpus:
            return self.public * min(1.0, (LARGE / size) ** 0.5)
        if row.source.startswith("blind_"):
            return self.blind
        name = row.source.removeprefix("corpus_")
        return self.last if name in LAST else self.newest if name in NEWEST else self.short


FIRST = Times(public=1.0, blind=1.5, newest=2.5, last=0.0, short=0.5)
SECOND = Times(public=0.35, blind=2.5, newest=2.0, last=3.0, short=0.2)
"""Of the two phases of the training: everything, then mostly texts as people and applications send them."""


def definition(tool: dict[str, Any]) -> str:
    """The text of a tool definition: its description and those of its parameters."""
    function = tool.get("function", tool)
    properties = (function.get("parameters") or {}).get("properties") or {}
    parts = [function.get("description"), *(p.get("description") for p in properties.values() if isinstance(p, dict))]
    return "\n".join(part for part in parts if isinstance(part, str))


def _row(value: dict[str, Any]) -> Row:
    source = str(value["source"])
    from_corpus = source.startswith(("own_", "corpus_"))
    labels = frozenset(str(label) for label in value.get("labels") or ()) & {str(label) for label in LABELS}
    channel = INDIRECT if source.startswith("bipia_") else CHANNELS[value.get("channel") or "direct"]
    edge = {"insert_start": (0, 100), "insert_end": (max(0, len(value["text"]) - 100), len(value["text"]))}
    group = value.get("pair") or f"{source}/{value.get('family') or value['id']}"
    return Row(
        id=str(value["id"]),
        text=value["text"],
        labels=labels,
        channel=channel,
        source=source,
        group=str(group),
        lang=str(value.get("lang", "")),
        family=str(value.get("family", "")),
        from_corpus=from_corpus,
        place=edge.get(str(value.get("technique"))) if labels else None,
        paired=bool(value.get("pair")),
        pii=str(Label.PII_DETECTED) in (value.get("labels") or ()),
    )
