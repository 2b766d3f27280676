"""Whether the judge is of use, judged by its latest answers; it says why not."""

from __future__ import annotations

import time

from sidecar.errors import LayerError
from sidecar.util import logs

FAILURES = 3
"""Failures in a row from which on the judge counts as out of order: a text may provoke one."""
TRIAL_INTERVAL, LONGEST_INTERVAL = 60.0, 3600.0
"""Seconds between two trials, and the most between two trial questions, which cost tokens."""
USELESS = frozenset({"unavailable", "garbage", "deadline"})
"""Causes that tell of the judge, and not of its bounds or of a text."""
_LASTING = ("status_401", "status_402", "status_403", "status_404")
"""Reasons that count at once: a wrong key, no money, a wrong path."""
_log = logs.get("llm_judge")


class JudgeState:
    """The latest outcomes. `problem` holds no text of an answer."""

    def __init__(self) -> None:
        self._failures, self._reason = 0, ""
        self._trial_problem: str | None = None
        self._trial_at: float | None = 0.0  # None: no further trial
        self._question_at, self._question_interval = 0.0, TRIAL_INTERVAL

    @property
    def problem(self) -> str | None:
        """Why the judge is of no use; None if it is, or nothing is known."""
        if self._failures >= FAILURES or (self._failures and self._reason in _LASTING):
            return f"the judge gives no usable answer: {self._reason}"
        return self._trial_problem

    def note_answer(self) -> None:
        """A scan had a verdict."""
        self._failures, self._trial_problem, self._trial_at = 0, None, None

    def note_failure(self, error: LayerError) -> None:
        """A scan had none. Only failures of the judge count, not its bounds, nor what the text provoked."""
        if error.cause in USELESS:
            self._failures, self._reason = self._failures + 1, str(error)

    def claims_trial(self) -> bool:
        """Whether the judge is to be tried now."""
        if self._trial_at is None or time.monotonic() < self._trial_at:
            return False
        self._trial_at = time.monotonic() + TRIAL_INTERVAL
        return True

    def may_ask(self) -> bool:
        """Whether a trial may have a question: after one that failed only at growing intervals."""
        return time.monotonic() >= self._question_at

    def note_trial(self, reason: str | None, *, asked: bool = False) -> None:
        """The outcome of a trial, with a question if `asked`; none follows a good one, or a verdict."""
        if self._trial_at is None:
            return
        self._trial_problem = f"the judge cannot be used: {reason}" if reason else None
        if not reason:
            self._trial_at = None
            return
        _log.warning("judge_unusable", reason=reason)
        if asked:
            self._question_at = time.monotonic() + self._question_interval
            self._question_interval = min(2 * self._question_interval, LONGEST_INTERVAL)
        else:
            self._question_at, self._question_interval = 0.0, TRIAL_INTERVAL
