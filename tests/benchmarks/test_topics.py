"""Twin of benchmarks/topics.py: its sentences, and that the figures are those of the rules."""

from __future__ import annotations

import pytest

from benchmarks.topics import HALVES, NEAR, Assistants, figures


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_three_topics_with_as_many_questions_on_as_off(half: str) -> None:
    """Thirty each, none an example, and the halves have nothing in common."""
    assistants = Assistants(half, "onnx")
    other = Assistants(HALVES[1 - HALVES.index(half)], "onnx")
    assert len(assistants.lines) == 3
    for name, lines in assistants.lines.items():
        assert (len(set(lines["on_topic"])), len(set(lines["off_topic"])), len(lines["examples"])) == (30, 30, 10)
        assert not set(lines["on_topic"]) & set(lines["examples"])
        assert len(assistants.groups(name)["near"]) == NEAR
    assert not set(assistants.lines) & set(other.lines)
    assert not set(assistants.follow_ups) & set(other.follow_ups)


def test_the_shipped_model_finds_more_off_topic_than_on_topic() -> None:
    """On the half on which the cosines were chosen: most of what is off topic, hardly anything else."""
    shares = figures(Assistants("development", "onnx"), "allowed")
    assert shares["off_topic"] > 0.5
    assert shares["on_topic"] < 0.05
    assert shares["follow-ups"] < 0.1
