"""Judges the actions in one response and says what follows: a finding, or a response that is withheld.

Works with `ResponseScanner`, which owns the findings of the response and its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from sidecar.actions.arguments import is_larger
from sidecar.actions.conversation import ToolCall
from sidecar.actions.judge import ActionFinding, ActionReview
from sidecar.actions.response_calls import response_calls
from sidecar.config import Settings
from sidecar.extraction.json_body import JsonValue
from sidecar.observability.metrics import ACTIONS
from sidecar.response_scan.extraction import Piece
from sidecar.types import Finding
from sidecar.util import logs
from sidecar.util.timeouts import with_timeout

HEADER = "x-sidecar-actions"
MAX_INLINE = 8 * 1024
"""Characters of the request, or of what is judged, up to which this is done without a thread."""
MAX_JUDGED = 512
"""Tool calls of one response that are judged; more than these are like a judgement that takes too long."""
Withhold = Callable[[Iterable[Finding], str | None], None]
"""Stores findings; with a message it raises, which withholds the response."""
_log = logs.get("actions")


@dataclass
class ActionScanner:
    """Judges the actions of one response. `monitor`: nothing is withheld."""

    settings: Settings
    call_id: str
    review: ActionReview
    withhold: Withhold
    monitor: bool = False
    found: list[ActionFinding] = field(default_factory=list)
    _known: set[tuple[str, ...]] = field(default_factory=set, repr=False)
    _judged_hashes: set[int] = field(default_factory=set, repr=False)
    _count: int = 0

    @property
    def withholds(self) -> bool:
        """Whether a finding withholds the response."""
        return self.settings.actions.mode in {"block", "ask"} and not self.monitor

    @property
    def outcome(self) -> str:
        """What follows from a finding: `flag`, `block` or `ask`."""
        return self.settings.actions.mode if self.withholds else "flag"

    @property
    def headers(self) -> dict[str, str]:
        """The response header that reports findings."""
        return {HEADER: self.outcome} if self.found else {}

    @property
    def message(self) -> str | None:
        """The message of a withheld response; under `ask` it names the tool and the value, for the client's user."""
        if not (self.found and self.withholds):
            return None
        message = self.settings.actions.message
        if self.outcome == "block":
            return message
        return f"{message.rstrip('. ')}: {self.found[0].describe()}; decision {self.call_id}."

    async def judge_body(self, document: JsonValue, texts: Iterable[Piece]) -> None:
        """Judge a complete response. Raises `TimeoutError`, and what `withhold` raises."""
        await self.judge_calls(response_calls(document))
        for piece in texts:
            if not piece.json:
                await self.judge_text(piece.text, piece.path)

    async def judge_calls(self, calls: Iterable[ToolCall]) -> None:
        """Judge tool calls; one that the last event of a stream repeats is judged once."""
        for call in calls:
            if not self._is_new(call.name, call.arguments):
                continue
            self._count += 1
            if self._count > MAX_JUDGED:
                raise TimeoutError
            is_large = is_larger(call.arguments, MAX_INLINE)
            self._act_on(await self._judged(is_large, self.review.call, call))

    async def judge_text(self, text: str, path: str) -> None:
        """Judge the links in a text."""
        if "://" in text and self._is_new(text):
            self._act_on(await self._judged(len(text) > MAX_INLINE, self.review.text, text, path))

    def log(self) -> None:
        """Count and log the findings, without the values of arguments."""
        for action in self.found:
            ACTIONS.labels(self.outcome).inc()
            names = {"tool": action.tool[:64], "argument": action.argument[:64], "evidence": list(action.evidence)}
            _log.warning("action_found", decision=self.call_id, outcome=self.outcome, rule=action.rule, **names)

    @cached_property
    def _is_large(self) -> bool:
        return self.review.exceeds(MAX_INLINE)

    def _is_new(self, *values: object) -> bool:
        """Whether these values have not been judged before. What is nested too deep to tell is new."""
        try:
            key = hash(repr(values))
        except RecursionError:
            return True
        is_new = key not in self._judged_hashes
        self._judged_hashes.add(key)
        return is_new

    async def _judged(
        self, is_large: bool, judge: Callable[..., list[ActionFinding]], *args: object
    ) -> list[ActionFinding]:
        if not is_large and not self._is_large:
            return judge(*args)
        return await with_timeout(self.settings.scan.deadline, asyncio.to_thread(judge, *args))

    def _act_on(self, actions: Iterable[ActionFinding]) -> None:
        new = [action for action in actions if action.repeated not in self._known]
        self.found += new
        self._known |= {action.repeated for action in new}
        findings = [action.finding for action in new]
        self.withhold(findings, self.message if new and self.withholds else None)
