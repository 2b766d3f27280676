"""Twin of sidecar/policy/prepared.py: the stored analysis of the shipped patterns is that of today's code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sidecar.detectors.rules.literals import analyse, required_literals
from sidecar.errors import PolicyError
from sidecar.policy import prepared, program_size
from sidecar.policy.prepared import Analysis
from tools.prepared import analyses

FOREIGN = r"\bglimmerfish\d+ of the seventh tide\b"


def test_the_stored_analysis_is_up_to_date() -> None:
    """Every shipped pattern compiles, and has its entry; sizes may differ by the version of RE2."""
    found = analyses()
    assert len(found) > 1_000
    stale = [pattern for pattern, analysis in found.items() if not _agrees(prepared.analysis_of(pattern), analysis)]
    assert stale == [], "run: python -m tools.prepared"
    stored = json.loads(gzip.decompress((prepared.folder() / prepared.NAME).read_bytes()))
    assert len(stored) == len(found), "run: python -m tools.prepared"


def _agrees(stored: Analysis | None, found: Analysis) -> bool:
    return stored is not None and stored[1:] == found[1:] and stored.size == pytest.approx(found.size, rel=0.25, abs=5)


def test_another_pattern_is_analysed() -> None:
    """As one of an operator's own."""
    assert prepared.analysis_of(FOREIGN) is None
    assert required_literals(FOREIGN) == analyse(FOREIGN)
    assert program_size(FOREIGN) > 10


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", gzip.compress(b"{"), gzip.compress(b"[]"), gzip.compress(b"{}")[:9]]
)
def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """And what to do; no rule is accused."""
    monkeypatch.setattr(prepared, "folder", lambda: tmp_path)
    (tmp_path / prepared.NAME).write_bytes(content)
    prepared.forget()
    with pytest.raises(PolicyError) as caught:
        prepared.analysis_of(FOREIGN)
    prepared.forget()
    assert f"{tmp_path / prepared.NAME} is damaged" in str(caught.value)


@pytest.mark.parametrize("max_letters", [12.0, float("inf")])
def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_letters: float) -> None:
    """Words, signs, other scripts, clauses without either; without the file nothing is stored."""
    clauses = (frozenset({b"two words", b"0"}), frozenset({"\u00e9", "@,:"}), frozenset({b"a", "<"}))
    analysis = Analysis(77, max_letters, clauses)
    monkeypatch.setattr(prepared, "folder", lambda: tmp_path)
    prepared.forget()
    assert prepared.analysis_of(FOREIGN) is None
    (tmp_path / prepared.NAME).write_bytes(prepared.encode({FOREIGN: analysis}))
    prepared.forget()
    assert prepared.analysis_of(FOREIGN) == analysis
    prepared.forget()
