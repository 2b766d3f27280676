"""Twin of sidecar/api/compat/texts.py: chat bodies to scan inputs, scores by label."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.api.compat import texts
from sidecar.config import Settings
from sidecar.errors import BodyError
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Source, Verdict


def test_the_sources_that_are_scanned_are_those_of_the_inline_door() -> None:
    """Sources that the settings exclude are named as unscanned."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    loose = Settings.model_validate({"scan": {"sources": {"model": {"layers": []}}}})
    every = texts.chat_input(Settings(), body)
    assert ({segment.source for segment in every.request.segments}, every.unscanned) == (
        {Source.USER, Source.MODEL},
        (),
    )
    some = texts.chat_input(loose, body)
    assert ({segment.source for segment in some.request.segments}, some.unscanned) == ({Source.USER}, ("model",))


def test_a_label_has_its_best_deciding_score_or_the_risk_score() -> None:
    """Rules under test do not count; a threat without findings has the score of the verdict."""
    findings = (
        Finding("A-1", Label.JAILBREAK, 0.7, LayerName.RULES, "prompt"),
        Finding("A-2", Label.JAILBREAK, 0.8, LayerName.RULES, "prompt"),
        Finding("A-3", Label.PII_DETECTED, 0.9, LayerName.RULES, "prompt", decides=False),
    )
    report = LayerReport(LayerName.RULES, 0.8, findings)
    threats = (Label.JAILBREAK, Label.PROMPT_INJECTION)
    results = texts.scores(Verdict(0.85, Action.BLOCK, threats, 1, LayerName.RULES, reports=(report,)))
    assert (results[Label.JAILBREAK], results[Label.PII_DETECTED], results[Label.PROMPT_INJECTION]) == (0.8, 0.0, 0.85)


def test_what_has_another_form_is_refused() -> None:
    """Objects, lists of objects and lists of strings, or a `BodyError`."""
    for read in (
        texts.require_object,
        lambda v: texts.require_objects(v, "x"),
        lambda v: texts.require_strings(v, "x"),
    ):
        with pytest.raises(BodyError):
            read(7)
    assert texts.require_strings(None, "x") == []


def test_what_the_assistant_says_last_is_the_answer() -> None:
    """One text for each message at the end, with its path; without one there is no answer and no prompt before it."""
    asked: list[Any] = [{"role": "user", "content": "a"}]
    told: list[Any] = [{"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}]
    answer, prompt = texts.trailing_answer(asked + told)
    assert answer == (("b", "messages.1.content"), ("c", "messages.2.content"))
    assert [segment.text for segment in prompt.segments] == ["a"]
    assert texts.trailing_answer(told + asked) == ((), texts.NO_PROMPT)


def test_leaves_are_all_strings_of_a_value_with_their_paths() -> None:
    """However deep, and no numbers."""
    assert list(texts.leaves({"a": ["x", {"b": "y"}], "c": 1})) == [("x", "a.0"), ("y", "a.1.b")]
    assert list(texts.leaves("x", "top")) == [("x", "top")]
