"""Twin of training/dressed.py."""

from __future__ import annotations

from random import Random

import pytest

from training import dressed

AIMS, WARDROBE = dressed.aims(), dressed.wardrobe()


def test_every_aim_has_a_twin_of_its_own() -> None:
    """Each begins with a verb in small letters and ends without a full stop, and none stands on both sides."""
    harmful, harmless = [aim.harmful for aim in AIMS], [aim.harmless for aim in AIMS]
    assert len({*harmful, *harmless}) == 2 * len(AIMS) > 500
    assert all(text[0].islower() and text == text.strip() and text[-1].isalpha() for text in (*harmful, *harmless))


@pytest.mark.parametrize("part", ["role", "setting", "ending", "insisting"])
def test_only_a_task_has_a_place_for_the_aim(part: str) -> None:
    """A task names the aim once, every other sentence is whole by itself and stands once."""
    others = getattr(WARDROBE, part)
    assert all(task.lower().count("{aim}") == 1 for task in WARDROBE.task)
    assert len(set(others)) == len(others) > 5
    assert not any("{" in sentence for sentence in others)


def test_an_aim_never_goes_bare() -> None:
    """Around a harmful aim there is always a sentence that is not the task: a bare question is another matter."""
    for seed in range(300):
        aim, rng = AIMS[seed % len(AIMS)], Random(seed)
        text = WARDROBE.harmful(aim, rng).lower()
        worn = (*WARDROBE.role, *WARDROBE.setting, *WARDROBE.ending)
        assert aim.harmful.lower() in text
        assert any(sentence.lower() in text for sentence in worn)


def test_what_insists_is_left_to_the_harmful() -> None:
    """A harmless twin wears the same roles, settings and endings, and nothing that forbids a refusal."""
    harmless = [WARDROBE.harmless(AIMS[seed % len(AIMS)], Random(seed)) for seed in range(1500)]
    harmful = [WARDROBE.harmful(AIMS[seed % len(AIMS)], Random(seed)) for seed in range(1500)]
    assert not any(sentence in text for text in harmless for sentence in WARDROBE.insisting)
    assert any(sentence in text for text in harmful for sentence in WARDROBE.insisting)
    assert all(any(sentence in text for text in harmless) for sentence in WARDROBE.role[:20])
