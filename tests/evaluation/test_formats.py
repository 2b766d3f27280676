"""Twin of sidecar/evaluation/formats.py."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.evaluation.formats import Unreadable, read_values


def values(path: Path, content: str, label: str | None = None) -> list[object]:
    """The values of a file with this content."""
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return list(read_values(path, label))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_a_csv_file_is_read_by_its_head(tmp_path: Path, name: str) -> None:
    """Quotes, commas and line breaks in a cell, a byte order mark, columns in any order, and the number of the line."""
    content = '\ufefflabel,text,lang\nattack,"a ""b"", c",en\r\nbenign,"two\nlines",\n,plain,\n'
    assert values(tmp_path / name, content) == [
        (2, {"text": 'a "b", c', "label": "attack", "lang": "en"}),
        (4, {"text": "two\nlines", "label": "benign"}),
        (5, {"text": "plain"}),
    ]


def test_plain_lines_have_the_label_of_the_option(tmp_path: Path) -> None:
    """Blank lines are none; a line is its text whatever it holds."""
    assert values(tmp_path / "a.txt", 'one\n\n{"text": 1}\r\n', "attack") == [
        (1, {"text": "one", "label": "attack"}),
        (3, {"text": '{"text": 1}', "label": "attack"}),
    ]


def test_the_option_labels_only_lines_without_a_label(tmp_path: Path) -> None:
    """Whichever way a line is labelled."""
    content = '{"text": "a"}\n{"text": "b", "label": "attack"}\n{"text": "c", "labels": []}\nno json\n'
    read = values(tmp_path / "a.jsonl", content, "benign")
    assert read[:3] == [
        (1, {"text": "a", "label": "benign"}),
        (2, {"text": "b", "label": "attack"}),
        (3, {"text": "c", "labels": []}),
    ]
    assert isinstance(read[3][1], Unreadable)  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "prompt,label\nx,attack\n", "text, label"),
        ("a.csv", 'text,label\n"x" y,attack\n', "line 2"),
        ("a.txt", b"\xff", "not UTF-8 at byte 0"),
        ("a.txt", None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(
    tmp_path: Path, name: str, content: str | bytes | None, words: str
) -> None:
    """With the line or the byte, where there is one."""
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=words):
        list(read_values(tmp_path / name))
