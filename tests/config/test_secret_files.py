"""Twin of sidecar/config/secret_files.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.secret_files import read_secret, read_secret_bytes
from sidecar.errors import ConfigError


def test_white_space_around_a_secret_is_no_part_of_it(tmp_path: Path) -> None:
    """Editors and `echo` end a file with a line end."""
    (tmp_path / "key").write_bytes(b" sk-1\r\n")
    assert read_secret(tmp_path / "key", "upstream.api_key_file") == "sk-1"
    assert read_secret_bytes(tmp_path / "key", "auth.pepper_file") == b"sk-1"


@pytest.mark.parametrize("content", [b"", b"\n", b"sk-1\nsk-2", b"sk-1 sk-2", b"sk-\xff", b"sk\x00-1", "sk-é".encode()])
def test_what_is_no_secret_is_an_error_that_quotes_nothing(tmp_path: Path, content: bytes) -> None:
    """It names the setting and the file."""
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_secret(tmp_path / "key", "upstream.api_key_file")
    assert "upstream.api_key_file cannot be used" in str(caught.value)
    assert str(tmp_path / "key") in str(caught.value)
    assert "sk" not in str(caught.value).replace(str(tmp_path), "")


def test_an_absent_file_is_told_in_plain_words(tmp_path: Path) -> None:
    """As the system says it."""
    for read in (read_secret, read_secret_bytes):
        with pytest.raises(ConfigError, match="No such file or directory"):
            read(tmp_path / "absent", "auth.pepper_file")
