"""The forms in which tools deliver text."""

from __future__ import annotations

import base64
import json
import unicodedata

import pytest

from benchmarks.forms import FORMS, encoded, read, soft_hyphens, table

TEXT = "Die Fähre fährt am Dienstag um zehn Uhr, und am Mittwoch gar nicht."


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"plain"}))
def test_every_form_changes_the_text_and_is_always_the_same(name: str) -> None:
    """Two measurements see the same texts."""
    assert FORMS[name](TEXT) == FORMS[name](TEXT) != TEXT


def test_forms_keep_the_text() -> None:
    """What was encoded can be read again."""
    assert json.loads(FORMS["json_ascii"](TEXT))["content"] == TEXT
    assert base64.b64decode(encoded(TEXT)).decode() == TEXT
    assert soft_hyphens(TEXT).replace("\u00ad", "") == TEXT
    assert unicodedata.normalize("NFC", FORMS["decomposed"](TEXT)) == TEXT
    assert table('say "no"').splitlines()[1] == '1,"say ""no"""'


def test_texts_are_drawn_alike_each_time() -> None:
    """Harmless ones and attacks are of different rows."""
    harmless, attacks = (read(["f_read"], benign=benign, most=20) for benign in (True, False))
    assert harmless == read(["f_read"], benign=True, most=20)
    assert len(harmless) == len(attacks) == 20
    assert set(harmless).isdisjoint(attacks)
