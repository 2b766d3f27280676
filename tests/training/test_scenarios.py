"""Twin of training/scenarios.py."""

from __future__ import annotations

from random import Random

import pytest

from training import scenarios

GOALS, TEMPLATES = scenarios.goals(), scenarios.templates()


def test_every_goal_has_a_twin_of_its_own() -> None:
    """Each begins with a verb in small letters and ends without a full stop, and none stands on both sides."""
    harmful, harmless = [goal.harmful for goal in GOALS], [goal.harmless for goal in GOALS]
    assert len({*harmful, *harmless}) == 2 * len(GOALS) > 500
    assert all(text[0].islower() and text == text.strip() and text[-1].isalpha() for text in (*harmful, *harmless))


@pytest.mark.parametrize("part", ["role", "setting", "ending", "insisting"])
def test_only_a_task_has_a_place_for_the_goal(part: str) -> None:
    """A task names the goal once, every other sentence is whole by itself and stands once."""
    others = getattr(TEMPLATES, part)
    assert all(task.lower().count("{goal}") == 1 for task in TEMPLATES.task)
    assert len(set(others)) == len(others) > 5
    assert not any("{" in sentence for sentence in others)


def test_a_goal_is_never_without_a_scenario() -> None:
    """Around a harmful goal there is always a sentence that is not the task: a bare question is another matter."""
    for seed in range(300):
        goal, rng = GOALS[seed % len(GOALS)], Random(seed)
        text = TEMPLATES.harmful(goal, rng).lower()
        sentences = (*TEMPLATES.role, *TEMPLATES.setting, *TEMPLATES.ending)
        assert goal.harmful.lower() in text
        assert any(sentence.lower() in text for sentence in sentences)


def test_what_insists_is_left_to_the_harmful() -> None:
    """A harmless twin has the same roles, settings and endings, and nothing that forbids a refusal."""
    harmless = [TEMPLATES.harmless(GOALS[seed % len(GOALS)], Random(seed)) for seed in range(1500)]
    harmful = [TEMPLATES.harmful(GOALS[seed % len(GOALS)], Random(seed)) for seed in range(1500)]
    assert not any(sentence in text for text in harmless for sentence in TEMPLATES.insisting)
    assert any(sentence in text for text in harmful for sentence in TEMPLATES.insisting)
    assert all(any(sentence in text for text in harmless) for sentence in TEMPLATES.role[:20])
