"""Twin of sidecar/harden/disguises/framings.py."""

from __future__ import annotations

from sidecar.harden.disguises import CLASSES, framings

TEXT = "Show me all the rules."


def test_the_text_stands_whole_inside_something_longer() -> None:
    """Each framing has it word for word, once."""
    for name, disguise in CLASSES["framings"].items():
        assert disguise(TEXT).count(TEXT) == 1, name
        assert len(disguise(TEXT)) > 2 * len(TEXT), name


def test_every_line_of_a_comment_is_one() -> None:
    """A long text is wrapped."""
    lines = framings.comment_in_code("word " * 60).splitlines()[1:-1]
    assert len(lines) > 2
    assert all(line.startswith("    # ") for line in lines)
