"""Twin of sidecar/evaluation/rows.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.evaluation.rows import Row, read_rows
from sidecar.types import Channel


def rows_of(folder: Path, *lines: object) -> list[Row]:
    """These lines, written and read."""
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return read_rows(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_rows_are_read_plain_and_gzipped(tmp_path: Path, name: str) -> None:
    """Both forms give the same rows, blank lines are skipped."""
    lines = [{"id": "a", "text": "x", "labels": ["jailbreak"], "channel": "indirect"}, {"text": "y", "benign": True}]
    content = "\n\n".join(json.dumps(line) for line in lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    first, second = read_rows(tmp_path / name)
    assert (first.id, first.attack, first.channel) == ("a", True, Channel.INDIRECT)
    assert (second.id, second.benign) == ("3", True)


def test_rows_documents_and_conversations_are_told_apart(tmp_path: Path) -> None:
    """By `messages` or `body`, and by `bytes` or `kind`; `pii_weak` is no kind of document."""
    turns = [{"role": "user", "content": "hi"}]
    rows = rows_of(
        tmp_path,
        {"text": "x", "benign": True},
        {"text": "x", "kind": "pii_weak"},
        {"text": "x", "kind": "readme", "channel": "indirect"},
        {"text": "x", "bytes": 1},
        {"messages": turns},
        {"body": {"model": "m", "input": "hi"}, "dialect": "responses"},
    )
    assert [row.form for row in rows] == ["row", "row", "document", "document", "conversation", "conversation"]
    assert [len(list(row.requests())) for row in rows] == [0, 0, 1, 1, 1, 1]
    assert rows[5].operation == "/responses"


def test_the_size_class_is_that_of_what_is_said(tmp_path: Path) -> None:
    """`bytes` where the file states it, else UTF-8 of all strings."""
    values = [{"text": "x", "bytes": 40_000, "benign": True}, {"text": "é" * 1_500}, {"text": "x" * 300_000}]
    sizes = [row.size_class for row in rows_of(tmp_path, *values, {"messages": [{"role": "user", "content": "hi"}]})]
    assert sizes == ["32-200 kB", "2-8 kB", "> 200 kB", "< 2 kB"]


def test_bad_lines_are_named_all_at_once(tmp_path: Path) -> None:
    """A file with bad lines is refused with their numbers."""
    path = tmp_path / "rows.jsonl"
    lines = ['{"text": "x"}', '{"text": 5}', "not json", '{"text": "x", "channel": "sideways"}', "[1]"]
    lines += ['{"messages": "hi"}', '{"body": {}, "dialect": "french"}', '{"messages": ["hi"]}']
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_rows(path)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [f"line {n}" for n in range(2, 9)]


@pytest.mark.parametrize("content", [None, b"\x1f\x8b broken", gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 9])
def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path, content: bytes | None) -> None:
    """An absent or damaged file is named."""
    path = tmp_path / "rows.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"rows\.jsonl\.gz"):
        read_rows(path)


@pytest.mark.parametrize(
    "line",
    [
        {"labels": ["benign"]},
        {"labels": ["attack", "jailbreak"]},
        {"labels": [["jailbreak"]]},
        {"label": "bad"},
        {"label": 2},
        {"label": "attack", "benign": True},
        {"labels": ["jailbreak"], "benign": True},
    ],
)
def test_an_unknown_or_contradictory_label_is_an_error(tmp_path: Path, line: dict[str, object]) -> None:
    """It would count as an attack that nothing catches, or as nothing: the message names it and its line."""
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "x", **line}), "utf-8")
    with pytest.raises(ConfigError, match="1 bad line"):
        read_rows(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    ("line", "attack", "benign"),
    [
        ({"label": "attack"}, True, False),
        ({"label": "Benign"}, False, True),
        ({"label": 1}, True, False),
        ({"label": 0}, False, True),
        ({"label": "jailbreak"}, True, False),
        ({"label": "attack", "labels": ["jailbreak"]}, True, False),
        ({"benign": "true"}, False, True),
        ({}, False, False),
    ],
)
def test_one_word_says_what_a_line_is(tmp_path: Path, line: dict[str, object], attack: bool, benign: bool) -> None:
    """The words of other tools' files, or one of the four kinds; a line without any is unlabelled."""
    first, _ = rows_of(tmp_path, {"text": "x", **line}, {"text": "y", "benign": True})
    assert (first.attack, first.benign, first.unlabelled) == (attack, benign, not attack and not benign)


def test_a_file_without_a_label_is_an_error(tmp_path: Path) -> None:
    """All figures of it would be empty."""
    (tmp_path / "rows.jsonl").write_text('{"text": "x"}', "utf-8")
    with pytest.raises(ConfigError, match="no labelled line"):
        read_rows(tmp_path / "rows.jsonl")
