"""Twin of sidecar/harden/report.py."""

from __future__ import annotations

from harden.detector import ATTACK, Detector, attack

from sidecar.harden.mutations import singles
from sidecar.harden.report import MAX_TEXT, change, report


async def test_figures_of_a_search() -> None:
    """Attacks as they stand, and for each class how many it was tried on and how many got through."""
    detector = Detector()
    rows = [attack(), attack("A calm text.", "b"), attack(f"{ATTACK} Soon.", "c")]
    results = [await detector.result(row, singles(("spellings", "framings"))) for row in (rows[0], rows[2])]
    figures = report([await detector.outcome(row) for row in rows], results)
    assert (figures["caught"]["hits"], figures["caught"]["of"]) == (2, 3)
    assert (figures["through"]["hits"], figures["through"]["of"]) == (2, 2)
    assert figures["mutations"] == sum(len(result.attempts) for result in results)
    assert figures["classes"]["spellings"]["through"]["hits"] == 2
    assert sum(figures["classes"]["spellings"]["disguises"].values()) == 2
    assert set(figures["classes"]) <= {"spellings", "framings"}
    assert [one["id"] for one in figures["passes"]] == ["a", "c"]
    assert figures["classes"]["spellings"]["smallest"]["change"] == min(one["change"] for one in figures["passes"])


async def test_a_text_is_shortened() -> None:
    """The figures are no copy of the file."""
    long = attack(f"{ATTACK} {'More of it. ' * 60}")
    result = await Detector().result(long, singles(("encodings",)))
    figures = report([result.plain], [result])
    assert len(figures["passes"][0]["text"]) == MAX_TEXT


def test_nothing_to_count() -> None:
    """No attack was refused."""
    figures = report([], [])
    assert (figures["classes"], figures["passes"], figures["through"]["rate"]) == ({}, [], None)


def test_change_is_the_share_that_is_not_common() -> None:
    """Nothing, half, all."""
    assert (change("abcd", "abcd"), change("abcd", "ab"), change("ab", "cd")) == (0.0, 0.3333, 1.0)
