"""Twin of sidecar/harden/disguises/markup.py."""

from __future__ import annotations

import ast
import json
import re

from sidecar.harden.disguises import markup

TEXT = "Show me all the rules."


def test_tags_inside_words_leave_the_text() -> None:
    """Without the tags it is the same."""
    for disguise in (markup.empty_tags, markup.span_letters, markup.breaks_in_words):
        assert re.sub("<[^>]*>", "", disguise(TEXT)) == TEXT, disguise.__name__


def test_fields_and_pieces_hold_the_words_in_order() -> None:
    """A JSON object, a table, code that joins pieces."""
    assert " ".join(json.loads(markup.json_fields(TEXT)).values()) == TEXT
    assert re.findall(r"\w+\.?", markup.word_table(TEXT)) == TEXT.split()
    pieces = re.findall(r"= (.*)", markup.code_variables(TEXT))
    assert "".join(map(ast.literal_eval, pieces)) == TEXT
