"""The newest alerts of a process, and whether each reached its receiver; kept in memory, as the store may be away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Literal, NamedTuple

MAX_ALERTS = 50
Outcome = Literal["sent", "failed", "dropped"]


class SentAlert(NamedTuple):
    """An alert and its outcome. `at`: Unix time of the outcome; `reason`: why it was not sent, without the address."""

    at: float
    name: str
    state: str
    outcome: Outcome
    summary: str = ""
    reason: str = ""

    @property
    def moment(self) -> datetime:
        """The time of the outcome."""
        return datetime.fromtimestamp(self.at, UTC)


def newest(*histories: Iterable[SentAlert]) -> list[SentAlert]:
    """The newest alerts of several processes, the newest first, at most `MAX_ALERTS`."""
    return sorted(chain(*histories), key=lambda alert: -alert.at)[:MAX_ALERTS]


def problem_of(alerts: Sequence[SentAlert]) -> str | None:
    """What is wrong with the receiver, by the newest alert, which is the first; None if it was sent."""
    if not alerts or alerts[0].outcome == "sent":
        return None
    return f"the newest alert ({alerts[0].name}) could not be sent: {alerts[0].reason or alerts[0].outcome}"
