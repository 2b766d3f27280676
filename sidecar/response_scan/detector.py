"""What is found in an answer: personal data and secrets by the policy's own rules, and the system prompt.

What the user said himself is no find: a model that repeats it tells nobody anything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from sidecar.config import Answers
from sidecar.detectors.rules.layer import OFFLOAD, RulesLayer
from sidecar.extraction.extraction import Extraction
from sidecar.normalization import views
from sidecar.policy import Policy
from sidecar.response_scan.leaks import Leaks
from sidecar.response_scan.placeholders import kind_of, spans
from sidecar.response_scan.stream_lookahead import Beginnings
from sidecar.types import Finding, Label, ScanRequest, Segment, Source

SAID = 64 * 1024
"""Characters kept of what the user said, the last ones."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}
Text = tuple[str, str]
"""A text and its path."""


def personal_rules(policy: Policy) -> RulesLayer:
    """A layer of the rules about personal data and secrets alone."""
    rules = tuple(rule for rule in policy.rules if rule.label is Label.PII_DETECTED)
    return RulesLayer(policy.model_copy(update={"rules": rules}))


class Finder:
    """Looks for what one request's answer must not say."""

    def __init__(self, personal: RulesLayer, settings: Answers, texts: Extraction, leaks: Leaks) -> None:
        self._personal = personal
        self._wanted = frozenset(settings.find)
        self._leaks = leaks
        prompt = texts.system_prompt if "system_prompt" in self._wanted else None
        canary = settings.canary if "system_prompt" in self._wanted else None
        self._begins = partial(Beginnings, prompt, words=settings.words, canary=canary)
        self._long = len(prompt or "") > SAID // 8
        user_texts = (segment.text for segment in texts.segments if segment.source is Source.USER)
        self._said = "\n".join(user_texts)[-SAID:]

    @classmethod
    async def made(cls, personal: RulesLayer, settings: Answers, texts: Extraction) -> Finder:
        """As above, with the system prompt of the request read; a long one beside the event loop."""
        prompt = texts.system_prompt if "system_prompt" in settings.find else None
        canary = settings.canary if "system_prompt" in settings.find else None
        if len(prompt or "") > SAID // 8:
            leaks = await asyncio.to_thread(Leaks, prompt, words=settings.words, canary=canary)
        else:
            leaks = Leaks(prompt, words=settings.words, canary=canary)
        return cls(personal, settings, texts, leaks)

    async def beginnings(self) -> Beginnings:
        """What a find may begin with; of a long system prompt made beside the event loop."""
        return await asyncio.to_thread(self._begins) if self._long else self._begins()

    async def findings(self, texts: Sequence[Text]) -> list[Finding]:
        """All findings in these texts, each with the path of its text."""
        texts = [*texts, *((_unescaped(text), path) for text, path in texts if "\\" in text)]
        return [*await self._personal_findings(texts), *await self._leaked(texts)]

    async def _personal_findings(self, texts: Sequence[Text]) -> list[Finding]:
        if not self._wanted & {"pii", "secrets"}:
            return []
        segments = tuple(Segment(text, path=str(number)) for number, (text, _) in enumerate(texts))
        report = await self._personal.scan(ScanRequest(segments), ())
        return [_at(finding, texts[int(finding.path)][1]) for finding in self._news(report.findings, texts)]

    def _news(self, findings: Iterable[Finding], texts: Sequence[Text]) -> Iterator[Finding]:
        """What was asked for and the user did not say."""
        for finding in findings:
            text = texts[int(finding.path)][0]
            sort = "secrets" if kind_of(finding.rule) == "SECRET" else "pii"
            from_user = any(text[start:end] in self._said for start, end, _ in spans(text, [finding]))
            if finding.decides and sort in self._wanted and not from_user:
                yield finding

    async def _leaked(self, texts: Sequence[Text]) -> list[Finding]:
        if not self._leaks:
            return []
        if sum(len(text) for text, _ in texts) > OFFLOAD:
            return await asyncio.to_thread(self._read, texts)
        return self._read(texts)

    def _read(self, texts: Sequence[Text]) -> list[Finding]:
        return [f for text, path in texts for view in views(text) for f in self._leaks.found(view.text, path)]


def _at(finding: Finding, path: str) -> Finding:
    return Finding(finding.rule, finding.label, finding.score, finding.layer, path, finding.start, finding.end)


def _unescaped(text: str) -> str:
    """A text that is part of JSON, as whoever decodes it will read it."""
    return _ESCAPE.sub(lambda hit: chr(int(hit[1], 16)) if hit[1] else _CONTROLS.get(hit[2], hit[2]), text)
