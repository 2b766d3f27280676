"""Judges the actions of one response: its tool calls by provenance and text, and the links in its words.

`ActionJudge` belongs to the configuration, `ActionReview` to one request. Scores and thresholds are the settings'; the
response scanner acts on the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import re2

from sidecar.actions.argument_rules import LINK, PROVENANCE, ArgumentRules, action_policy, action_switches
from sidecar.actions.arguments import is_larger, leaves
from sidecar.actions.assessment import Assessor
from sidecar.actions.atoms import links
from sidecar.actions.conversation import Conversation, ToolCall
from sidecar.actions.evidence import Assessment
from sidecar.actions.provenance import Provenances
from sidecar.actions.tool_classes import ToolClass, ToolKind, classify
from sidecar.config import ActionAllowance, Actions, Settings
from sidecar.types import Finding, Label, LayerName

MAX_SHOWN = 80
"""Characters of a name or value in a refusal."""


@dataclass(frozen=True, slots=True)
class ActionFinding:
    """One finding on an action. `value` is text of the conversation: for the client alone, not for a log."""

    rule: str
    score: float
    path: str
    tool: str = ""
    argument: str = ""
    value: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding:
        """The same as findings of layers are recorded."""
        return Finding(self.rule, Label.PROMPT_INJECTION, self.score, LayerName.RULES, self.path)

    @property
    def repeated(self) -> tuple[str, ...]:
        """The same for a finding on the same action at another place: the last event of a stream repeats the calls."""
        return (self.rule, self.tool, self.argument, self.value)

    def describe(self) -> str:
        """What a client can put to its user: the tool and the argument, and the value if its provenance decided."""
        value = f" {_shortened(self.value)!r}" if self.value else ""
        if not self.tool:
            return f"it holds a link{value and f' to{value}'} ({self.rule})"
        argument = f" with {_shortened(self.argument)}{value}" if self.argument else ""
        return f"the tool {_shortened(self.tool)!r} would be called{argument} ({self.rule})"


class ActionJudge:
    """Judges under given settings."""

    def __init__(self, settings: Actions, rules: ArgumentRules) -> None:
        self.settings, self.rules = settings, rules

    def review(self, document: Any, suspicious: Iterable[str] = (), key_id: str | None = None) -> ActionReview:
        """The review of the response to a request with this body; `suspicious`: paths where layers found something."""
        return ActionReview(self, document, tuple(suspicious), key_id)


def action_judge(settings: Settings) -> ActionJudge | None:
    """The judge under these settings; None if actions are off. Raises `PolicyError` for a change that cannot be."""
    if settings.actions.mode == "off":
        return None
    return ActionJudge(settings.actions, ArgumentRules(action_policy(), action_switches(settings.rules)))


@dataclass(slots=True)
class ActionReview:
    """Judges the actions in the response to one request, whose body is read when it is first needed."""

    judge: ActionJudge
    document: Any
    suspicious: Sequence[str] = ()
    key_id: str | None = None
    _conversation: Conversation | None = field(default=None, repr=False)
    _assessor: Assessor | None = field(default=None, repr=False)

    @property
    def conversation(self) -> Conversation:
        """What the model was given."""
        if self._conversation is None:
            self._conversation = Conversation.read(self.document)
        return self._conversation

    def exceeds(self, limit: int) -> bool:
        """Whether the body is larger than so many characters, which the time for a judgement grows with."""
        return is_larger(self.document, limit)

    def call(self, call: ToolCall) -> list[ActionFinding]:
        """The findings on a tool call; of one that the settings allow, on the arguments that they do not name."""
        entries = [entry for entry in self.judge.settings.allow if _allows(entry, call, self.key_id)]
        if any(not entry.arguments for entry in entries):
            return []
        allowed = frozenset(name for entry in entries for name in entry.arguments)
        return [*self._by_provenance(call, allowed), *self._by_text(call, allowed)]

    def text(self, text: str, path: str) -> list[ActionFinding]:
        """The findings on the links in a text of the answer."""
        if not self.judge.settings.links or "://" not in text:
            return []
        rules = [ActionFinding(rule.id, rule.score, path) for rule in self.judge.rules.in_text(text)]
        return [*rules, *self._links(text, path)]

    def assess(self, call: ToolCall, allowed: Set[str]) -> tuple[ToolKind, Assessment]:
        """The class of a call, and its evidence whatever the settings say. `allowed`: arguments that are none."""
        kind = classify(call, self.conversation.tools.get(call.name), self.judge.settings.tools)
        return kind, self._prepared().assess(call, kind, allowed)

    def _by_provenance(self, call: ToolCall, allowed: Set[str]) -> Iterator[ActionFinding]:
        if not self.conversation.results or PROVENANCE in self.judge.rules.off:
            return
        kind, assessment = self.assess(call, allowed)
        is_judged = kind.tool_class in self.judge.settings.classes or kind.tool_class is ToolClass.READS
        is_judged = is_judged or "names_tool" in assessment.evidence
        if not is_judged or assessment.score < self.judge.settings.threshold:
            return
        name, value = (assessment.argument.name, assessment.argument.atom.text) if assessment.argument else ("", "")
        score, evidence = min(1.0, assessment.score), tuple(assessment.evidence)
        yield ActionFinding(PROVENANCE, score, call.path, call.name, name, value, evidence)

    def _by_text(self, call: ToolCall, allowed: Set[str]) -> Iterator[ActionFinding]:
        for rule, argument in self.judge.rules.in_arguments(call.arguments):
            if argument in allowed:
                continue
            yield ActionFinding(rule.id, rule.score, call.path, call.name, argument)

    def _links(self, text: str, path: str) -> Iterator[ActionFinding]:
        if not self.conversation.results or LINK in self.judge.rules.off:
            return
        for url in links(text):
            assessment = self._prepared().assess_link(url)
            if assessment.score >= self.judge.settings.threshold:
                score, evidence = min(1.0, assessment.score), tuple(assessment.evidence)
                yield ActionFinding(LINK, score, path, value=url, evidence=evidence)

    def _prepared(self) -> Assessor:
        if self._assessor is None:
            results = self.conversation.results
            numbers = [n for n, result in enumerate(results) if _is_under(self.suspicious, result.path)]
            self._assessor = Assessor(Provenances(self.conversation), frozenset(numbers))
        return self._assessor


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _is_under(paths: Iterable[str], place: str) -> bool:
    return any(path == place or path.startswith(f"{place}.") for path in paths)


def _allows(entry: ActionAllowance, call: ToolCall, key_id: str | None) -> bool:
    """Whether an entry of the settings allows the call: every argument that it names must match as a whole."""
    if not fnmatchcase(call.name, entry.tool) or entry.key not in {None, key_id}:
        return False
    values = list(leaves(call.arguments))
    return all(
        [value for name, value in values if name == wanted]
        and all(re2.fullmatch(pattern, value) for name, value in values if name == wanted)
        for wanted, pattern in entry.arguments.items()
    )
