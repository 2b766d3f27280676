"""The rules layer: matches the patterns of the policies against every view of the text, in well under a millisecond.

One pass over each view finds the matching rules; exact places are computed for those only. A rule counts once per
segment, in the first view in which it matches, so a finding in `base64` means that the plain text did not match. A
match that appears only after decoding is also reported by the `hidden_in` rule that names the decoding.

A rule's status says how a hit counts: it decides alone (`block`), is a hint (`hint`), or is reported only (`test`). A
hit of an intent rule that is not an order in its context (`sidecar.detectors.rules.context`) counts one level lower;
the other places of the rule are then checked, too, so that an order after a quotation is found.

Texts longer than `MAX_INLINE` code points, and shorter ones with much expected work, are scanned in a thread. Work on
the event loop takes a few milliseconds at most, in time slices (`sidecar.detectors.rules.loop_budget`). Of a text
longer than `LONG_TEXT` the head is scanned first, and the rest only if the head was not conclusive: this bounds the
cost of text full of trigger words, the most expensive for the automata.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from sidecar.detectors.rules import hits
from sidecar.detectors.rules.context import CONTEXT_AFTER, mitigation
from sidecar.detectors.rules.loop_budget import LoopBudget
from sidecar.detectors.rules.matcher import Matcher, PrefilterResult
from sidecar.detectors.rules.prompt_overlap import Overlap, overlap
from sidecar.detectors.rules.validators import CHECKS
from sidecar.errors import LayerError, PolicyError
from sidecar.normalization import OVERFLOW, STEPS, NormalizedText, encodable, is_plain, normalizations
from sidecar.normalization.folding import is_typeset
from sidecar.policy import Policy, Rule
from sidecar.types import Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport, Source
from sidecar.util.bulkhead import Bulkhead

MAX_INLINE = 700
"""Code points of any kind that are scanned without a thread if little work is expected."""
MAX_INLINE_ASCII, MAX_INLINE_SINGLE, MAX_INLINE_WORK = 1_500, 10_000, 100_000
"""Limits for scanning without a thread ASCII text that suggests no other view, if its estimated work is at most the
third number (`Matcher.estimated_work`; 0.2 ms of searching, and more for the places found); the second applies to a
single text. A thread costs more: RE2 releases the GIL at each call, and the event loop and the thread then wait for
each other."""
MAX_INLINE_NUMBERS = 200
"""Digits and @ in a text longer than `MAX_INLINE_ASCII` scanned without a thread: each number found has its cost."""
MAX_THREADS = max(2, (os.cpu_count() or 1) // 2)
"""Threads that scan at once, for which clients take turns. Most of the work holds the GIL: more threads would only make
the event loop wait longer for it."""
LONG_TEXT = 12_000
"""Code points beyond which only the first `HEAD` code points are scanned first."""
HEAD = 6_000
MAX_PLACES = 256
"""Places of one pattern reported in one view of a segment, or examined for an order."""
OVERFLOW_RULE = "SMG-OVERFLOW"
"""The finding for a text with more decodings than the budget allows (`sidecar.normalization.BUDGET_FACTOR`)."""
OVERFLOW_SCORE = 0.3
"""Its score: a count is no evidence, but the remainder was not scanned."""
KEYWORD_STUFFING = "INJ-CROWDED"
"""The finding for a keyword-stuffed text (`matcher.STUFFING_PATTERNS`): score 1, since it is not scanned further."""
_NO_NUMBERS = str.maketrans("", "", "0123456789@")
NO_PREFILTERED: Mapping[str, PrefilterResult | None] = {}
MAX_CACHED_MASKS = 1_000
"""Cached combinations of a source and a view's steps; texts determine which occur."""
SYSTEM_PROMPT_BONUS = 0.1
"""Added to the score of a request for the system prompt if there is a system prompt."""
RAW = NormalizedText("")
"""A view with the rules of an unchanged text."""
SMUGGLING_SCORE = 0.6
"""Minimum score of a hit for hiding it to count as smuggling."""


class RulesLayer:
    """A `Layer`. Raises `PolicyError` for rules with unknown views or validators."""

    name = LayerName.RULES

    def __init__(self, policy: Policy, *, unaided: bool = True) -> None:
        """`unaided`: no model scores these texts, so that `fallback` rules block."""
        self.unaided = unaided
        active = [rule for rule in policy.rules if rule.status != "retired"]
        self._rules = [rule for rule in active if rule.patterns]
        self._smuggling_rules = [rule for rule in active if rule.hidden_in]
        _check_names(active)
        patterns = [(rule, pattern) for rule in self._rules for pattern in rule.patterns]
        self._rule_of = [rule for rule, _ in patterns]
        self._matcher = Matcher([pattern for _, pattern in patterns], [rule.id for rule in self._rule_of])
        self._masks: dict[tuple[Source, tuple[str, ...], bool], int] = {}
        self._loop_budget = LoopBudget()
        self._threads = Bulkhead(MAX_THREADS, queue=None)

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:  # noqa: ARG002 - the protocol
        """Findings of all segments. Only patterns decide; the same text has the same findings.

        Raises `LayerError` `budget` if promising decodings were left out and no finding suffices.
        """
        length = request.length + len(request.system_prompt or "")
        prefiltered: dict[str, PrefilterResult | None] = {}
        async with self._loop_budget:
            is_light = (length <= MAX_INLINE or _is_short_ascii(request, length)) and self._is_light(
                request, prefiltered
            )
            reports = self._scan(request, prefiltered) if is_light else None
        if reports is None:
            reports = await self._scan_in_thread(request, prefiltered)
        _raise_on_overflow(reports, request.sufficient_score)
        return LayerReport.from_segments(self.name, reports)

    async def _scan_in_thread(
        self, request: ScanRequest, prefiltered: Mapping[str, PrefilterResult | None]
    ) -> list[SegmentReport]:
        """Scan when it is the client's turn. A thread cannot be stopped, so it keeps its place when the caller left."""
        await self._threads.acquire(request.client)
        scan = asyncio.ensure_future(asyncio.to_thread(self._scan, request, prefiltered))
        scan.add_done_callback(lambda _: self._threads.release())
        return await asyncio.shield(scan)

    def _is_light(self, request: ScanRequest, prefiltered: dict[str, PrefilterResult | None]) -> bool:
        """Whether little work is expected; the prefiltered texts are then stored in `prefiltered`."""
        work = 0
        for segment in request.segments:
            result = prefiltered[segment.text] = self._matcher.prefilter(encodable(segment.text))
            work += self._matcher.estimated_work(result, self._pattern_mask(segment, RAW))
        return work <= MAX_INLINE_WORK

    def _scan(self, request: ScanRequest, prefiltered: Mapping[str, PrefilterResult | None]) -> list[SegmentReport]:
        prompt_overlap = overlap(request.system_prompt) if request.system_prompt else None
        enough = request.sufficient_score
        return [self._scan_segment(segment, prompt_overlap, prefiltered, enough=enough) for segment in request.segments]

    def _scan_segment(
        self,
        segment: Segment,
        prompt_overlap: Overlap | None,
        prefiltered: Mapping[str, PrefilterResult | None] = NO_PREFILTERED,
        *,
        enough: float | None,
    ) -> SegmentReport:
        """A head with a score that is `enough` ends the scan of a long text; None: nothing does."""
        if enough is not None and len(segment.text) > LONG_TEXT:
            head_report = self._scan_text(replace(segment, text=segment.text[:HEAD]), prompt_overlap, prefiltered)
            if any(
                finding.decides and finding.score >= enough and (finding.end or 0) < HEAD - CONTEXT_AFTER
                for finding in head_report.findings
            ):
                return replace(head_report, complete=False)
        return self._scan_text(segment, prompt_overlap, prefiltered)

    def _scan_text(
        self, segment: Segment, prompt_overlap: Overlap | None, prefiltered: Mapping[str, PrefilterResult | None]
    ) -> SegmentReport:
        """The findings in all views; not `complete` if a view was skipped or places were left out."""
        text = segment.text
        result = prefiltered[text] if text in prefiltered else self._matcher.prefilter(encodable(text))
        normalized = (NormalizedText(encodable(text)),) if result is None else normalizations(text)
        findings = list(prompt_overlap.findings(segment, normalized)) if prompt_overlap else []
        has_overflow = normalized[-1].path == (OVERFLOW,)
        if has_overflow:
            findings.append(
                hits.segment_finding(OVERFLOW_RULE, Label.TOKEN_SMUGGLING, OVERFLOW_SCORE, segment, normalized[-1])
            )
        reported, mitigated = set[str](), dict[str, list[tuple[int, int]]]()
        for view in normalized:
            result = self._matcher.prefilter(view.text) if view.path else result
            if result is None:
                findings.append(hits.segment_finding(KEYWORD_STUFFING, Label.PROMPT_INJECTION, 1.0, segment, view))
                break
            for finding in self._scan_view(segment, view, result, reported, mitigated):
                findings.append(finding)
                findings += self._smuggling(segment, view, finding, reported)
        complete = result is not None and not has_overflow
        if findings:
            places = Counter((finding.rule, finding.view) for finding in findings)
            complete = complete and max(places.values()) < MAX_PLACES
        return _report(findings, has_system_prompt=prompt_overlap is not None, complete=complete)

    def _scan_view(
        self,
        segment: Segment,
        view: NormalizedText,
        prefiltered: PrefilterResult,
        reported: set[str],
        mitigated: dict[str, list[tuple[int, int]]],
    ) -> Iterator[Finding]:
        """Rules that match in this view and in no earlier one. `mitigated`: places of hits that are no orders."""
        reported_here: set[str] = set()
        mask = self._pattern_mask(segment, view)
        for number in self._matcher.matching(prefiltered, mask, reported):
            rule = self._rule_of[number]
            if hits.reports_every_place(rule):
                findings = list(self._matches(rule, number, segment, view))
                if findings:
                    reported_here.add(rule.id)
                yield from findings
            elif finding := self._first_order(rule, number, segment, view, mitigated):
                if hits.status_of(finding) == hits.effective_status(rule, unaided=self.unaided):
                    reported.add(rule.id)
                yield finding
        reported.update(reported_here)

    def _pattern_mask(self, segment: Segment, view: NormalizedText) -> int:
        """The patterns whose rules apply to such views of a text from this source, as a bit mask."""
        key = (segment.source, view.path, view.hidden)
        mask = self._masks.get(key)
        if mask is None:
            if len(self._masks) >= MAX_CACHED_MASKS:
                self._masks.clear()
            channel, kinds = segment.channel, view.kinds
            rules = ((1 << number, rule) for number, rule in enumerate(self._rule_of) if channel in rule.channels)
            mask = sum(bit for bit, rule in rules if not rule.views or not kinds.isdisjoint(rule.views))
            self._masks[key] = mask
        return mask

    def _matches(self, rule: Rule, number: int, segment: Segment, view: NormalizedText) -> Iterator[Finding]:
        """The first `MAX_PLACES` places of the rule; hits that fail the validator are skipped, however many."""
        check = CHECKS[rule.check] if rule.check else None
        spans = self._matcher.spans(number, view.text)
        places = (span for span in spans if check is None or check(view.text[span[0] : span[1]]))
        for start, end in islice(places, MAX_PLACES):
            yield hits.finding(rule, segment, view, start, end, unaided=self.unaided)

    def _first_order(
        self,
        rule: Rule,
        number: int,
        segment: Segment,
        view: NormalizedText,
        mitigated: dict[str, list[tuple[int, int]]],
    ) -> Finding | None:
        """The first place that is an order; else the first of all, one level lower, if no other was reported.

        Beyond `MAX_PLACES` places nothing is mitigated: no honest text quotes the same words so often.
        """
        mitigated_spans, demoted = mitigated.get(rule.id, []), None
        check = CHECKS[rule.check] if rule.check else None
        for count, (start, end) in enumerate(self._matcher.spans(number, view.text)):
            if check is not None and not check(view.text[start:end]):
                continue
            if rule.views and not hits.is_decoded(view, start, end):
                continue
            finding = hits.finding(rule, segment, view, start, end, unaided=self.unaided)
            place = (finding.start or 0, finding.end or 0)
            if any(place[0] < other_end and other_start < place[1] for other_start, other_end in mitigated_spans):
                continue
            if (
                count >= MAX_PLACES
                or not hits.is_context_sensitive(rule)
                or not mitigation(view.text, start, end, in_latin=rule.is_in_latin)
            ):
                return finding
            mitigated.setdefault(rule.id, []).append(place)
            demoted = demoted or hits.demoted(finding)
        return None if mitigated_spans else demoted

    def _smuggling(
        self, segment: Segment, view: NormalizedText, cause: Finding, reported: set[str]
    ) -> Iterator[Finding]:
        """The rules about hiding, if the finding is serious and was hidden in their way."""
        if cause.score < SMUGGLING_SCORE or cause.label in (Label.PII_DETECTED, Label.TOKEN_SMUGGLING):
            return
        if view.path == ("unhidden",) and is_typeset(segment.text[cause.start : cause.end]):
            return
        if cause.fallback and (view.is_disguise or not view.hidden):
            cause = replace(cause, decides=True)  # the disguise is the evidence that the words alone are not
        for rule in self._smuggling_rules:
            if rule.id not in reported and view.kinds.intersection(rule.hidden_in) and segment.channel in rule.channels:
                reported.add(rule.id)
                score = rule.score_on(segment.channel) or 0.0
                finding = hits.finding_at(rule, score, segment, view, cause.start, cause.end, unaided=self.unaided)
                yield hits.capped_by(finding, cause)


def _raise_on_overflow(reports: Sequence[SegmentReport], sufficient_score: float | None) -> None:
    """Left-out decodings matter unless the request is blocked by other findings."""
    has_overflow = any(finding.rule == OVERFLOW_RULE for report in reports for finding in report.findings)
    threshold = SMUGGLING_SCORE if sufficient_score is None else sufficient_score
    if has_overflow and all(report.score < threshold for report in reports):
        raise LayerError("budget", "the text has more readings than there is room for")


def _is_short_ascii(request: ScanRequest, length: int) -> bool:
    """Whether plain ASCII texts of this total length may be scanned without a thread if little work is expected."""
    texts = [segment.text for segment in request.segments]
    if length > MAX_INLINE_SINGLE or not all(map(str.isascii, texts)):
        return False
    if length > MAX_INLINE_ASCII and (
        len(texts) > 1 or request.system_prompt or _count_numbers(texts[0]) > MAX_INLINE_NUMBERS
    ):
        return False
    return all(map(is_plain, texts))


def _count_numbers(text: str) -> int:
    return len(text) - len(text.translate(_NO_NUMBERS))


def _check_names(rules: Sequence[Rule]) -> None:
    """Every name that a rule uses must exist."""
    names = {*STEPS, "raw", "folded", "hidden"}
    problems = [
        f"{rule.id}: no view is called {name}"
        for rule in rules
        for name in (*rule.views, *rule.hidden_in)
        if name not in names
    ]
    problems += [f"{rule.id}: no check is called {rule.check}" for rule in rules if rule.check not in {None, *CHECKS}]
    if problems:
        raise PolicyError("policies ask for what the rules layer does not have", problems)


def _report(findings: Sequence[Finding], *, has_system_prompt: bool, complete: bool) -> SegmentReport:
    if not findings:
        return SegmentReport(0.0, complete=complete)
    weighted = tuple(_with_bonus(finding) for finding in findings) if has_system_prompt else tuple(findings)
    return SegmentReport(
        max((finding.score for finding in weighted if finding.decides), default=0.0), weighted, complete
    )


def _with_bonus(finding: Finding) -> Finding:
    """An attempt to extract the system prompt scores higher if there is one; a fallback's score is its evidence."""
    if finding.label is not Label.SYSTEM_PROMPT_EXTRACTION or finding.fallback:
        return finding
    return replace(finding, score=min(1.0, finding.score + SYSTEM_PROMPT_BONUS))
