"""Detects personal data, secrets (by the policy's own rules) and the system prompt in a response.

Repeating discloses nothing: personal data that is anywhere in the request, in whatever spelling, is not reported, nor a
secret that the user sent. Values of documentation and of organisations are nobody's (`public_values`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from sidecar.config import Answers
from sidecar.detectors.rules.layer import MAX_INLINE, RulesLayer
from sidecar.extraction.extraction import Extraction
from sidecar.normalization import normalizations
from sidecar.policy import Policy
from sidecar.response_scan.leaks import Leaks
from sidecar.response_scan.placeholders import kind_of, spans
from sidecar.response_scan.public_values import is_public
from sidecar.response_scan.stream_lookahead import StreamLookahead
from sidecar.scan.known_values import KnownValues
from sidecar.types import Finding, Label, ScanRequest, Segment, Source

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}
LONG_PROMPT = 8 * 1024
"""Characters of a system prompt from which its index is built in a thread."""
Text = tuple[str, str]
"""A text and its path."""


def personal_rules(policy: Policy) -> RulesLayer:
    """A layer with only the rules for personal data and secrets."""
    rules = tuple(rule for rule in policy.rules if rule.label is Label.PII_DETECTED)
    return RulesLayer(policy.model_copy(update={"rules": rules}))


class ResponseDetector:
    """Detector for the response to one request."""

    def __init__(self, personal: RulesLayer, settings: Answers, texts: Extraction, leaks: Leaks) -> None:
        self._personal = personal
        self._kinds = frozenset(settings.find)
        self._leaks = leaks
        prompt = texts.system_prompt if "system_prompt" in self._kinds else None
        canary = settings.canary if "system_prompt" in self._kinds else None
        self._make_lookahead = partial(StreamLookahead, prompt, words=settings.words, canary=canary)
        self._is_long_prompt = len(prompt or "") > LONG_PROMPT
        self._users = KnownValues(segment.text for segment in texts.segments if segment.source is Source.USER)
        self._request = KnownValues(segment.text for segment in texts.segments)

    @classmethod
    async def create(cls, personal: RulesLayer, settings: Answers, texts: Extraction) -> ResponseDetector:
        """Create the detector; the index of a long system prompt is built in a thread."""
        prompt = texts.system_prompt if "system_prompt" in settings.find else None
        canary = settings.canary if "system_prompt" in settings.find else None
        if len(prompt or "") > LONG_PROMPT:
            leaks = await asyncio.to_thread(Leaks, prompt, words=settings.words, canary=canary)
        else:
            leaks = Leaks(prompt, words=settings.words, canary=canary)
        return cls(personal, settings, texts, leaks)

    async def lookahead(self) -> StreamLookahead:
        """The look-ahead for a streamed response; for a long system prompt it is built in a thread."""
        return await asyncio.to_thread(self._make_lookahead) if self._is_long_prompt else self._make_lookahead()

    async def findings(self, texts: Sequence[Text]) -> list[Finding]:
        """All findings in these texts, each with the path of its text.

        Text with backslashes is also scanned unescaped.
        """
        texts = [*texts, *((_unescaped(text), path) for text, path in texts if "\\" in text)]
        return [*await self._personal_findings(texts), *await self._leak_findings(texts)]

    async def _personal_findings(self, texts: Sequence[Text]) -> list[Finding]:
        if not self._kinds & {"pii", "secrets"}:
            return []
        segments = tuple(Segment(text, path=str(number)) for number, (text, _) in enumerate(texts))
        report = await self._personal.scan(ScanRequest(segments), ())
        return [_at(finding, texts[int(finding.path)][1]) for finding in self._new_findings(report.findings, texts)]

    def _new_findings(self, findings: Iterable[Finding], texts: Sequence[Text]) -> Iterator[Finding]:
        """Findings of the configured kinds whose value is not known already."""
        for finding in findings:
            text = texts[int(finding.path)][0]
            data = kind_of(finding.rule)
            kind = "secrets" if data == "SECRET" else "pii"
            if not finding.decides or kind not in self._kinds:
                continue
            known = self._users if kind == "secrets" else self._request
            values = [text[start:end] for start, end, _ in spans(text, [finding])]
            if not any(is_public(value, data) or value in known for value in values):
                yield finding

    async def _leak_findings(self, texts: Sequence[Text]) -> list[Finding]:
        if not self._leaks:
            return []
        if sum(len(text) for text, _ in texts) > MAX_INLINE:
            return await asyncio.to_thread(self._match_leaks, texts)
        return self._match_leaks(texts)

    def _match_leaks(self, texts: Sequence[Text]) -> list[Finding]:
        return [f for text, path in texts for view in normalizations(text) for f in self._leaks.find(view.text, path)]


def _at(finding: Finding, path: str) -> Finding:
    return Finding(finding.rule, finding.label, finding.score, finding.layer, path, finding.start, finding.end)


def _unescaped(text: str) -> str:
    """A text that is part of a JSON string, with its escapes decoded."""
    return _ESCAPE.sub(lambda hit: chr(int(hit[1], 16)) if hit[1] else _CONTROLS.get(hit[2], hit[2]), text)
