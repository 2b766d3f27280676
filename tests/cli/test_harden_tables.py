"""Twin of sidecar/cli/harden_tables.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.harden_tables import show_figures, show_rules


def share(hits: int, of: int) -> dict[str, Any]:
    """A share as the figures have it."""
    return {"hits": hits, "of": of}


SMALLEST = {"mutation": "leet", "change": 0.25, "text": "[red]1gn0r3\x1b[31m"}
FIGURES: dict[str, Any] = {
    "caught": share(3, 4),
    "through": share(1, 2),
    "could_not_scan": 1,
    "not_changeable": 1,
    "mutations": 20,
    "classes": {
        "spellings": {"through": share(1, 2), "smallest": SMALLEST},
        "markup": {"through": share(0, 2), "smallest": None},
    },
    "passes": [SMALLEST, SMALLEST, SMALLEST],
    "rules": [{"id": "HARDEN-1", "label": "jailbreak", "texts": 1, "title": "Says [this]"}],
    "outvoted": {"INJ-1": 1},
    "without_rule": 1,
}


def test_people_see_counts_classes_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """Markup and control characters of a text are shown as they are."""
    show_figures(FIGURES)
    shown = capsys.readouterr().out
    for text in ("3 of 4", "1 could not be scanned", "1 cannot be changed", "leet, 25%", "[red]1gn0r3\\x1b[31m"):
        assert text in shown, text
    assert "got through: 1 of 2 attacks, after 20 mutations" in shown
    assert "\x1b[31m" not in shown


def test_people_see_rules_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Where they were written, or that they can be; and what has none."""
    show_rules(FIGURES, Path("out.yaml"))
    shown = capsys.readouterr().out
    for text in ("HARDEN-1", "Says [this]", "outvoted: INJ-1 1", "without a rule: 1 of 3", "written to out.yaml"):
        assert text in shown, text
    show_rules(FIGURES, None)
    assert "--rules OUT.yaml" in capsys.readouterr().out
    show_rules({**FIGURES, "passes": []}, None)
    assert capsys.readouterr().out == ""
