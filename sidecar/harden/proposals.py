"""Rules proposed against what got through, each with its proofs: `match` and `no_match` lines that hold.

A proposal matches the disguised text on both channels strongly enough to block, and neither a harmless text of the
file nor a sentence of `sidecar.harden.harmless`. Its status is `test`: it is reported, and decides nothing yet.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sidecar.detectors.rules import selftest
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.evaluation import ATTACKS
from sidecar.evaluation.formats import ATTACK
from sidecar.harden import harmless, phrases
from sidecar.harden.forms import FORMS
from sidecar.harden.search import Attempt, Result
from sidecar.normalization import normalizations
from sidecar.policy import Policy, Rule, compiled
from sidecar.policy.rules import expand
from sidecar.types import SOURCE_OF, Channel, Label, Segment

SCORE = 0.9
MAX_MATCH, MAX_NO_MATCH = 4, 3
"""Lines of a rule; what else it matches is counted."""
MAX_CANDIDATES = 40
"""Patterns that are tried against one text."""
LONGEST_NEAR_MISS = 240
MAX_BENIGN = 2_000
"""Harmless texts of the file that each proposal is tried on."""
CHANNELS = (Channel.DIRECT, Channel.INDIRECT)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern that is not proved yet; `no_match`: near misses that belong to it."""

    title: str
    pattern: str
    label: Label
    languages: tuple[str, ...]
    no_match: tuple[str, ...] = ()
    views: tuple[str, ...] = ()


@dataclass(slots=True)
class Proposal:
    """A rule that is proved, with the patterns as a file holds them, and the texts that it matches."""

    candidate: Candidate
    no_match: tuple[str, ...]
    texts: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The same for the same pattern, so that two files of proposals do not use an id twice for two rules."""
        return f"HARDEN-{hashlib.sha256(self.candidate.pattern.encode()).hexdigest()[:8].upper()}"

    def values(self) -> dict[str, Any]:
        """The rule as a mapping of a policy file."""
        candidate = self.candidate
        return {
            "id": self.id,
            "title": candidate.title,
            "label": str(candidate.label),
            "score": SCORE,
            "status": "test",
            "languages": list(candidate.languages),
            "channels": [str(channel) for channel in CHANNELS],
            **({"views": list(candidate.views)} if candidate.views else {}),
            "patterns": [candidate.pattern],
            "match": sorted(self.texts, key=len)[:MAX_MATCH],
            "no_match": list(self.no_match),
        }

    def rule(self, status: str = "test") -> Rule:
        """The rule as it is loaded from a file, with this status."""
        patterns = [expand(self.candidate.pattern, phrases.WORDS)]
        return Rule.model_validate(self.values() | {"status": status, "patterns": patterns})


class Proposals:
    """Collects rules until every text that a rule can find is found by one. `benign`: harmless texts of the file."""

    def __init__(self, benign: Sequence[str]) -> None:
        self._harmless = (*benign[:MAX_BENIGN], *harmless.SENTENCES)
        self.rules: list[Proposal] = []
        self.outvoted = Counter[str]()
        """Texts for each rule of the configuration that found them and was outvoted: these need no new rule."""
        self.open: list[Attempt] = []
        """What no rule of words or forms can find."""

    async def add(self, result: Result, attempt: Attempt) -> None:
        """Find a rule for one text that got through."""
        self.outvoted.update(attempt.outvoted)
        if attempt.outvoted:
            return
        for proposal in self.rules:
            if attempt.text in proposal.texts or await _blocks(proposal.rule("block"), attempt.text):
                proposal.texts.append(attempt.text)
                return
        for candidate in filter(_finder(attempt.text), _candidates(result, attempt)):
            proposal = Proposal(candidate, self._near_misses(candidate), [attempt.text])
            if await self._is_proved(proposal):
                self.rules.append(proposal)
                return
        self.open.append(attempt)

    def _near_misses(self, candidate: Candidate) -> tuple[str, ...]:
        """The harmless texts that share most words with it."""
        words = set(re.findall(r"[^\W\d_]{3,}", candidate.pattern.lower() + candidate.title.lower()))

        def shared(text: str) -> int:
            return len(words & set(re.findall(r"[^\W\d_]{3,}", text.lower())))

        short = (text for text in self._harmless if len(text) <= LONGEST_NEAR_MISS)
        return (*candidate.no_match, *sorted(short, key=shared, reverse=True))[:MAX_NO_MATCH]

    async def _is_proved(self, proposal: Proposal) -> bool:
        """Whether its own lines hold, also once it blocks, and no harmless text is matched."""
        pattern = compiled(proposal.rule().patterns[0])
        if any(pattern.search(text) for text in self._harmless):
            return False
        for status in ("block", "test"):
            rule = proposal.rule(status)
            policy = Policy(rules=(rule,), revision="proposal")
            if await selftest.run_selftests(policy, [RulesLayer(policy)]):
                return False
        return not await _any_match(rule, self._harmless)


def _finder(text: str) -> Callable[[Candidate], bool]:
    """Whether a candidate occurs in a view of the text: quick, and most do not."""
    views = [view.text for view in normalizations(text)]

    def finds(candidate: Candidate) -> bool:
        pattern = compiled(expand(candidate.pattern, phrases.WORDS))
        return any(pattern.search(view) for view in (views[:1] if candidate.views else views))

    return finds


def _candidates(result: Result, attempt: Attempt) -> Iterator[Candidate]:
    """Patterns of words, then of forms."""
    assert result.target is not None  # noqa: S101 - something got through
    label, languages = _label(result), (result.target.row.lang or "any",)
    text = attempt.mutation.reworded(result.target.text)
    for phrase in phrases.phrases(text)[:MAX_CANDIDATES]:
        yield Candidate(f'Says "{phrase.words[:90]}"', phrase.pattern, label, languages)
    for form in (FORMS[step.name] for step in attempt.mutation.steps if step.name in FORMS):
        yield Candidate(form.title, form.pattern, Label.TOKEN_SMUGGLING, ("any",), form.no_match, ("raw",))


def _label(result: Result) -> Label:
    """The first label of the attack, else of the verdict on the plain text."""
    labels = [*sorted(result.plain.row.labels), *result.plain.verdict.threats, Label.PROMPT_INJECTION]
    return next(Label(label) for label in labels if label in ATTACKS - {ATTACK})


async def _blocks(rule: Rule, text: str) -> bool:
    """Whether the rule alone would block this text on every channel."""
    layer = RulesLayer(Policy(rules=(rule,), revision="proposal"))
    return all([await selftest.is_met(rule, layer, Segment(text, SOURCE_OF[channel])) for channel in CHANNELS])


async def _any_match(rule: Rule, texts: Iterable[str]) -> bool:
    """Whether the rule matches one of these texts at all."""
    layer = RulesLayer(Policy(rules=(rule,), revision="proposal"))
    for text in texts:
        if await selftest.is_met(rule, layer, Segment(text)):
            return True
    return False


async def propose(results: Sequence[Result], benign: Sequence[str]) -> Proposals:
    """Rules for everything that got through, in the order of the attacks."""
    proposals = Proposals(benign)
    for result in results:
        for attempt in result.passes:
            await proposals.add(result, attempt)
    return proposals
