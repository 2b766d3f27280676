"""Twin of sidecar/util/files.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.util.files import describe_failure


def test_an_absent_file_and_a_folder_are_told_in_plain_words(tmp_path: Path) -> None:
    """The system's own words, without a class of Python."""
    for path, words in ((tmp_path / "absent", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(OSError, match=words) as caught:
            path.read_text("utf-8")
        assert describe_failure(caught.value) == words


def test_a_file_of_another_encoding_is_told_without_its_content(tmp_path: Path) -> None:
    """The encoding and the place; the bytes may be a secret."""
    (tmp_path / "key").write_bytes(b"sk-\xff")
    with pytest.raises(UnicodeDecodeError) as caught:
        (tmp_path / "key").read_text("ascii")
    assert describe_failure(caught.value) == "not ASCII at byte 3"
