"""Twin of sidecar/harden/search.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harden.detector import ATTACK, WORD, Detector, attack

from sidecar.harden import CLASSES
from sidecar.harden.mutations import COMBINED, singles
from sidecar.harden.search import DEFAULT_BUDGET, SHARE_OF_SINGLES

FRAMES = singles(("framings",))
SPELLINGS = singles(("spellings",))


def test_the_default_budget_covers_every_single_disguise() -> None:
    """With a share for pairs besides."""
    assert sum(map(len, CLASSES.values())) <= DEFAULT_BUDGET * SHARE_OF_SINGLES


async def test_the_search_ends_with_the_first_that_gets_through() -> None:
    """It is the last attempt, its text is kept, and the texts of the others are not."""
    result = await Detector().result(attack(), singles())
    *others, last = result.attempts
    assert last.through
    assert WORD not in last.text
    assert last.text == last.mutation.apply(ATTACK)
    assert not any(attempt.through or attempt.text for attempt in others)


async def test_a_thorough_search_goes_on_with_the_other_classes() -> None:
    """Each class ends with its first; the search with the last class or the budget."""
    detector = Detector()
    result = await detector.result(attack(), singles(("spellings", "encodings")), budget=90, thorough=True)
    assert [attempt.mutation.kind for attempt in result.passes].count("spellings") == 1
    assert result.passed_classes == {"spellings", "encodings"}
    assert len(detector.texts) == len(result.attempts) + 1


async def test_single_disguises_take_two_thirds_of_the_budget_and_pairs_the_rest() -> None:
    """If none gets through; nothing is scanned twice."""
    detector = Detector(lambda _: 1.0)
    result = await detector.result(attack(), singles(), budget=30)
    kinds = [attempt.mutation.kind for attempt in result.attempts]
    assert (len(kinds), kinds.index(COMBINED), kinds.count(COMBINED)) == (30, 20, 10)
    assert len(set(detector.texts)) == len(detector.texts)


async def test_pairs_of_what_lowered_the_score_come_first() -> None:
    """Two framings lower it a little each, and both together get through."""

    def score(text: str) -> float:
        return 1.0 - 0.25 * ("Karen" in text) - 0.25 * ("balcony" in text)

    result = await Detector(score).result(attack(), FRAMES, budget=99)
    assert result.passes[0].mutation.name in {"mail + item_of_a_list", "item_of_a_list + mail"}
    assert len(result.attempts) == len(FRAMES) + 1


async def test_the_same_seed_gives_the_same_search() -> None:
    """Whatever the other attacks are; another seed another order."""
    names = []
    for seed in (1, 1, 2):
        result = await Detector(lambda _: 1.0).result(attack(), SPELLINGS, budget=12, seed=seed)
        names.append([attempt.mutation.name for attempt in result.attempts])
    assert names[0] == names[1] != names[2]


async def test_an_attempt_names_the_rules_that_the_model_outvoted() -> None:
    """Those of what got through."""
    result = await Detector(fallback="INJ-1").result(attack(), SPELLINGS)
    assert result.passes[0].outvoted == ("INJ-1",)


@pytest.mark.parametrize("text", ["zebra", "斑馬 zebra", "\x00zebra\x00"])
async def test_short_and_strange_texts_are_searched_too(text: str) -> None:
    """One word is enough, of any script."""
    assert (await Detector().result(attack(text), singles(), budget=200)).passes


async def test_an_attack_in_two_places_cannot_be_changed_in_place() -> None:
    """One of them alone would stay refused; a conversation with one is searched."""
    for turns, places in ((("hi", ATTACK), 1), ((ATTACK, "hi", ATTACK + " Now."), 2)):
        body = {"model": "m", "messages": [{"role": "user", "content": turn} for turn in turns]}
        row = replace(attack(""), form="conversation", body=body, operation="/chat/completions")
        result = await Detector().result(row, SPELLINGS)
        assert (result.target is None, bool(result.passes)) == (places == 2, places == 1)
