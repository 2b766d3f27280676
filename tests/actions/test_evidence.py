"""Twin of sidecar/actions/evidence.py: names and weights."""

from __future__ import annotations

import re
from pathlib import Path

from sidecar.actions.evidence import WEIGHTS, Assessment, assessment, graded, weights


def test_the_score_is_the_sum() -> None:
    """Rounded, so that a threshold of two digits can be met."""
    evidence = {"addressed": WEIGHTS["addressed"], "linked": WEIGHTS["linked"]}
    found = assessment(weights("addressed", "linked"))
    assert found == Assessment(round(sum(evidence.values()), 2), None, evidence)
    assert all(-1 < weight < 1 for weight in WEIGHTS.values())


def test_evidence_of_which_there_is_more_or_less() -> None:
    """Its weight times its value; none of the value 0."""
    assert graded(described=2.0, subject=0.0) == {"described": 2 * WEIGHTS["described"]}


def test_the_document_gives_the_weights() -> None:
    """Of each flag as it is; of what there may be more or less of, at its highest or for each unit."""
    text = (Path(__file__).parents[2] / "docs" / "actions.md").read_text()
    given = {}
    for names, values in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]*) \|", text, re.MULTILINE):
        numbers = [float(number) for number in re.findall(r"-?0\.\d+", values)]
        keys = re.findall(r"\w+", names)
        given |= dict(zip(keys, numbers if len(numbers) == len(keys) else numbers * len(keys), strict=False))
    highest = {name: weight / 2 if name == "subject" else weight for name, weight in WEIGHTS.items()}
    assert {name: given.get(name) for name in WEIGHTS} == {name: round(highest[name], 2) for name in WEIGHTS}
