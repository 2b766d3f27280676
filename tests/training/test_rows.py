"""Twin of training/rows.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from training import rows as data
from training.rows import Row


def row(text: str, *labels: str, source: str = "own_a", group: str = "", from_corpus: bool = True) -> Row:
    """A row with what the tests look at."""
    return Row(text, text, frozenset(labels), 0, source=source, group=group or text, from_corpus=from_corpus)


def written(folder: Path, *values: dict[str, object]) -> Path:
    """A data folder with these rows."""
    lines = [{"id": str(n), "text": "t", "source": "s", "labels": []} | value for n, value in enumerate(values)]
    (folder / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return folder


def test_rows_are_read_as_the_data_format_says(tmp_path: Path) -> None:
    """PII alone is no attack, suspects are left out, the channel counts, guessed labels are not believed."""
    read = data.permissive(
        written(
            tmp_path,
            {"labels": ["pii_detected"]},
            {"labels": ["jailbreak"], "suspect_label": True},
            {"labels": ["jailbreak", "pii_detected"], "channel": "indirect"},
            {"labels": ["prompt_injection"], "source": "deepset_train"},
        )
    )
    assert [(r.attack, r.indirect, r.fine) for r in read] == [
        (False, False, True),
        (True, True, True),
        (True, False, False),
    ]


def test_only_the_permissive_file_is_ever_read(tmp_path: Path) -> None:
    """Files with unclear licences and the development set may lie beside it; they are not opened."""
    folder = written(tmp_path, {})
    for name in ("train_unclear.jsonl.gz", "dev.jsonl.gz", "holdout.sealed"):
        (folder / name).write_bytes(b"not even gzip")
    assert len(data.permissive(folder)) == 1


def test_an_attack_knows_where_it_stands_from_its_harmless_twin() -> None:
    """The place is where the two texts of a pair differ."""
    calm, bad = "one two three four five six seven eight", "one two three SEND IT four five six seven eight"
    placed = data.placed([row(calm, group="p"), row(bad, "prompt_injection", group="p"), row("alone", "jailbreak")])
    start, end = placed[1].place or (0, 0)
    assert bad[start:end].strip() == "SEND IT"
    assert placed[2].place is None


def test_texts_with_nothing_in_common_have_no_place() -> None:
    """A twin that was rewritten says nothing about where the attack stands."""
    assert data.difference("completely other words", ["nothing alike"]) is None


def test_large_sources_are_damped_and_rows_of_ours_are_drawn_by_their_file() -> None:
    """A public source of four times `LARGE` rows is drawn half; our files by what they hold."""
    rows = [row(str(n), source="big", from_corpus=False) for n in range(4 * data.LARGE)]
    rows += [row("s", source="small", from_corpus=False), row("o", source="corpus_x"), row("b", source="blind_x")]
    rows += [row("n", source="corpus_turns_of_coding_agents"), row("l", source="corpus_mails_and_messages_pairs")]
    times = data.Times(public=1.0, blind=2.0, newest=3.0, last=4.0, short=5.0).of(rows)
    assert (times[0], *times[-5:]) == (0.5, 1.0, 5.0, 2.0, 3.0, 4.0)


def test_the_newest_files_are_there() -> None:
    """No name in the list is a slip of the pen."""
    assert {path.stem for path in data.CORPUS.glob("*.jsonl")} >= data.NEWEST | data.LAST | data.UNUSED


def test_the_corpus_is_well_formed() -> None:
    """Every row of ours has a known label or none, is benign exactly without one, and has an id of its own."""
    values = [
        json.loads(line)
        for path in data.CORPUS.glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
        if line
    ]
    labels = {str(label) for label in data.LABELS}
    assert [v["id"] for v in values if set(v["labels"]) - labels or bool(v["labels"]) == bool(v["benign"])] == []
    assert [
        v["id"]
        for v in values
        if not v["text"].strip() or v.get("channel", "direct") not in {"direct", "indirect", "application"}
    ] == []
    assert [v["id"] for v in values if not v["source"].startswith(("own_", "corpus_"))] == []
    assert len({v["id"] for v in values}) == len(values)
