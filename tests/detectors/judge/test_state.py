"""Tests of what counts as a judge that is of no use."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from detectors.judge.judge_kinds import KINDS
from detectors.judge.judge_server import JudgeServer

from sidecar.config import JudgeLayer
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.detectors.judge.state import FAILURES, TRIAL_INTERVAL, USELESS, JudgeState
from sidecar.errors import LayerError
from sidecar.types import ScanRequest, Segment


def after(*errors: LayerError) -> JudgeState:
    """The state after these failures."""
    state = JudgeState()
    for error in errors:
        state.note_failure(error)
    return state


@pytest.mark.parametrize("reason", ["status_401", "status_402", "status_403", "status_404"])
def test_a_wrong_setting_counts_at_once(reason: str) -> None:
    """A wrong key, no money, a wrong path: no waiting for more of the same."""
    assert after(LayerError("unavailable", reason)).problem == f"the judge gives no usable answer: {reason}"


@pytest.mark.parametrize("cause", ["unavailable", "garbage", "deadline"])
def test_a_failure_may_be_an_accident_several_in_a_row_are_not(cause: str) -> None:
    """A verdict in between begins the count anew."""
    state = after(*[LayerError(cause)] * (FAILURES - 1))
    assert state.problem is None
    state.note_answer()
    state.note_failure(LayerError(cause))
    assert state.problem is None
    for _ in range(FAILURES - 1):
        state.note_failure(LayerError(cause))
    assert state.problem == f"the judge gives no usable answer: {cause}"
    state.note_answer()
    assert state.problem is None


def test_bounds_and_texts_do_not_count() -> None:
    """A spent budget, a full queue, a text that steers the judge: the judge itself works."""
    causes = ("budget", "queue_full", "breaker_open", "swayed", "partial", "refusal")
    assert after(*[LayerError(cause) for cause in causes] * FAILURES).problem is None


def test_trials_end_with_the_first_good_one() -> None:
    """A failed trial is told, and repeated later; a verdict ends them as well."""
    state = JudgeState()
    assert state.claims_trial()
    state.note_trial("status_401")
    assert state.problem == "the judge cannot be used: status_401"
    assert not state.claims_trial()
    state.note_trial(None)
    assert state.problem is None
    assert not state.claims_trial()
    other = JudgeState()
    other.note_trial("ClientConnectorError")
    other.note_answer()
    assert (other.problem, other.claims_trial()) == (None, False)


def test_a_trial_that_ends_after_a_verdict_says_nothing() -> None:
    """It began before, and the judge has answered meanwhile."""
    state = JudgeState()
    assert state.claims_trial()
    state.note_answer()
    state.note_trial("status_401")
    assert state.problem is None


def test_only_questions_of_trials_grow_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of models, which is free, is asked every minute; a server that comes back is asked at once."""
    clock = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    state, asked = JudgeState(), []
    for _ in range(120):
        assert state.claims_trial()
        if state.may_ask():
            asked.append(clock[0] - 1_000.0)
            state.note_trial("garbage", asked=True)
        clock[0] += TRIAL_INTERVAL
    assert asked == [0.0, 60.0, 180.0, 420.0, 900.0, 1860.0, 3780.0]
    state.note_trial("connection refused")
    assert state.may_ask()


@pytest.mark.parametrize("name", KINDS)
async def test_a_judge_of_no_use_is_told_after_three_questions(name: str) -> None:
    """Of each kind that never gives a verdict; one that does is no problem, nor is what may be the text's doing.

    A server that asks for a pause is left alone for as long; a judge that a text swayed, or that refused it, may be of
    use for others: alerts tell of their share.
    """
    kind = KINDS[name]
    settings = JudgeLayer(url="http://127.0.0.1:9", model="m", timeout=kind.timeout, breaker_failures=1000)
    async with JudgeServer(kind.answer) as server:
        layer = LlmJudgeLayer(settings.model_copy(update={"url": server.url}), (), cache=None)
        for number in range(FAILURES):
            with suppress(LayerError):
                await layer.scan(ScanRequest((Segment(f"How long do I boil {number} eggs?"),)), ())
        problem = layer.problem
        await layer.close()
    assert (problem is not None) == (kind.outcome in USELESS and name != "429 for a minute")
