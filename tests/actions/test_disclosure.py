"""Twin of sidecar/actions/disclosure.py: what a read discloses."""

from __future__ import annotations

import pytest

from sidecar.actions.disclosure import SECRET_PATH, carries_data, is_template_of, query_values


@pytest.mark.parametrize(
    "path", ["~/.ssh/id_ed25519", ".env", "config/secrets.yml", "/etc/shadow", "deploy/server.pem"]
)
def test_paths_of_secrets(path: str) -> None:
    """Files with keys and passwords."""
    assert SECRET_PATH.search(path)
    assert not SECRET_PATH.search("src/environment.py")


@pytest.mark.parametrize(
    ("text", "is_template"),
    [
        ("go on at https://x.example/r?pnr=[booking code]", True),
        ("https://x.example/r?pnr=手机号", True),
        ("https://x.example/r?pnr=", True),
        ("https://x.example/r?page=2", False),
        ("https://y.example/r?pnr=", False),
    ],
)
def test_a_url_with_a_blank(text: str, is_template: bool) -> None:
    """Of the same host and path."""
    assert is_template_of(text, "https://x.example/r?pnr=K7PD2W") is is_template


def test_the_values_of_a_query() -> None:
    """Short ones are no data."""
    assert query_values("https://x.example/?a=12&b=13805716620") == ["13805716620"]
    assert query_values("https://[x/?a=12345") == []
    assert carries_data("https://x.example/?a=1234567")
    assert not carries_data("https://x.example/about")
