"""What templates show is harmless and can be seen."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from sidecar.dashboard.pages import Pages, duration, pages_of, visible, when

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<script>", "&lt;script&gt;"),
        ("a\r\nb", "U+000D</span><span"),
        ("\u202eevil", "right-to-left override"),
        ("a\u200bb", "U+200B"),
        ("\U000e0041", "U+E0041"),
        ("\x00", "U+0000"),
        ('"><img src=x>é', "&lt;img"),
        ("\u2028\ufe0f\u3164", "U+3164"),
    ],
)
def test_hidden_characters_become_boxes_and_everything_is_escaped(text: str, shown: str) -> None:
    """Nothing steers the page, and nothing stays unseen."""
    html = str(visible(text))
    assert shown in html
    assert not set("\r\n\x00\u202e\u200b\u2028\ufe0f\u3164\U000e0041") & set(html)
    assert "<script" not in html
    assert "<img" not in html


def test_lines_stay_lines_where_they_may() -> None:
    """In a text of several lines only what is no line break is boxed."""
    assert str(visible("a\n\tb\r", lines=True)).startswith('<bdi dir="auto">a\n\tb<span')


def test_moments_are_in_utc_and_machine_readable() -> None:
    """None is a dash."""
    assert str(when(datetime(2026, 5, 1, 12, tzinfo=UTC))).endswith(">2026-05-01 12:00:00</time>")
    assert "–" in str(when(None))
    assert [duration(s) for s in (5, 90, 7200, 86400 * 30)] == ["5 s", "1.5 min", "2 h", "30 d"]


def test_a_template_that_lacks_a_value_fails() -> None:
    """Rather than showing a page with a hole."""
    with pytest.raises(UndefinedError):
        Pages().draw("error.html", {})


def test_the_documentation_shows_every_page_of_the_menu() -> None:
    """In pictures that exist, small enough for a repository; `make screenshots` takes them."""
    page = (DOCS / "dashboard.md").read_text("utf-8")
    shown = set(re.findall(r"dashboard/([a-z-]+\.webp)", page))
    assert {path.name for path in (DOCS / "dashboard").iterdir()} == shown
    missing = [
        text
        for _, text in pages_of(lambda _method, _path: True)
        if not any(name.startswith(text.lower()) for name in shown)
    ]
    assert missing == []
    assert sum(path.stat().st_size for path in (DOCS / "dashboard").iterdir()) < 1_500_000
