"""The rules layer: the policies' patterns over every view of the text, in well under a millisecond.

One pass over each view says which rules are met; exact places are looked up for those only. A rule counts
once a segment, in the first view that shows it, so a finding in `base64` means that the plain text did not.
What was met only after undoing a trick is also reported by the `hidden_in` rule that names the trick.

A rule's status says what a hit is: it decides alone (`block`), is a hint (`hint`), or is reported only (`test`). A
hit of a rule about intent that is no order where it stands (`sidecar.detectors.rules.context`) is one step less; then
the rule's other places are looked at, too, so that an order behind a quotation is found.

Texts longer than `OFFLOAD` code points, and shorter ones that promise much work, are worked on in a thread. What is
read on the event loop takes a few milliseconds at most, in turns (`sidecar.detectors.rules.loop_budget`).
Of a text longer than `LONG` the beginning is read first, and the rest only if that was not certain already:
text full of trigger words, which costs the automata most, is thereby cut short.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from sidecar.detectors.rules import hits
from sidecar.detectors.rules.context import AFTER, excuse
from sidecar.detectors.rules.loop_budget import Turn
from sidecar.detectors.rules.matcher import Matcher, Read
from sidecar.detectors.rules.prompt_overlap import Overlap, overlap
from sidecar.detectors.rules.validators import CHECKS
from sidecar.errors import LayerError, PolicyError
from sidecar.normalization import OVERFLOW, STEPS, View, encodable, is_plain, views
from sidecar.policy import Policy, Rule
from sidecar.types import Channel, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport

OFFLOAD = 700
"""Code points of any kind that are read without a thread where the words of the text promise little work."""
SHORT, PLAIN, LIGHT = 1_500, 10_000, 300_000
"""ASCII text up to so many code points that hints at no other view is read without a thread, too, where so little work
is to be expected (`Matcher.work`; 0.7 ms of searching); up to the second number if it is a single one. The hop costs
more: RE2 lets go of Python's lock at each call, and the event loop and the thread then wait for each other."""
NUMBERS = 200
"""Digits and @ in a text longer than `SHORT`, for it to be read without a thread: each number found has its price."""
LONG = 12_000
"""Code points beyond which a text is first read up to `BEGINNING`."""
BEGINNING = 6_000
PLACES = 256
"""Places of one pattern reported in one view of a segment, or looked at for one that is an order."""
HIDES = "SMG-OVERFLOW"
"""The finding on a text that hides itself in more ways than there is room to undo (`sidecar.normalization.ROOM`)."""
HINT = 0.3
"""What that is worth: a count is no evidence, but what was left out was not scanned."""
CROWDED = "INJ-CROWDED"
"""The finding on a text made of trigger words (`detectors.rules.matcher.CROWD`): worth 1, since no rule reads on."""
_NO_NUMBERS = str.maketrans("", "", "0123456789@")
NOTHING: Mapping[str, Read | None] = {}
KINDS = 1_000
"""Combinations of channel and kinds of view that are remembered; texts choose which come."""
KNOWN = 0.1
"""What a request for the system prompt weighs more when a system prompt is given."""
CERTAIN = 0.99
"""What a hit must be worth for the rest of a long text to be left unread: more than any sensible threshold."""
SERIOUS = 0.6
"""What a hit must be worth before hiding it counts as smuggling."""


class RulesLayer:
    """A `Layer`. Raises `PolicyError` for rules that ask for what it does not have."""

    name = LayerName.RULES

    def __init__(self, policy: Policy) -> None:
        live = [rule for rule in policy.rules if rule.status != "retired"]
        self._rules = [rule for rule in live if rule.patterns]
        self._hiding = [rule for rule in live if rule.hidden_in]
        _demand(live)
        owned = [(rule, pattern) for rule in self._rules for pattern in rule.patterns]
        self._owner = [rule for rule, _ in owned]
        self._matcher = Matcher([pattern for _, pattern in owned])
        self._known: dict[tuple[Channel, frozenset[str]], int] = {}
        self._turn = Turn()

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:  # noqa: ARG002 - the protocol
        """Findings of all segments. Only patterns decide; the same text has the same findings.

        Raises `LayerError` `budget` if readings that promised something are left unread and nothing found is enough.
        """
        length = request.length + len(request.system_prompt or "")
        known: dict[str, Read | None] = {}
        async with self._turn:
            light = (length <= OFFLOAD or _is_short(request, length)) and self._is_light(request, known)
            each = self._scan(request, known) if light else None
        if each is None:
            each = await asyncio.to_thread(self._scan, request, known)
        _demand_room(each, request.enough)
        return LayerReport.over(self.name, each)

    def _is_light(self, request: ScanRequest, known: dict[str, Read | None]) -> bool:
        """Whether little work is to be expected; the words of the texts are then `known`."""
        work = 0
        for segment in request.segments:
            raw = View(encodable(segment.text))
            read = known[raw.text] = self._matcher.read(raw.text)
            work += self._matcher.work(read, self._looking(segment.channel, raw.kinds))
        return work <= LIGHT

    def _scan(self, request: ScanRequest, known: Mapping[str, Read | None]) -> list[SegmentReport]:
        quoting = overlap(request.system_prompt) if request.system_prompt else None
        early = request.enough is not None
        return [self._read(segment, quoting, known, early=early) for segment in request.segments]

    def _read(
        self, segment: Segment, overlap: Overlap | None, known: Mapping[str, Read | None] = NOTHING, *, early: bool
    ) -> SegmentReport:
        """What is certain at the beginning settles it, unless the caller wants all that there is (`early`)."""
        if early and len(segment.text) > LONG:
            begun = self._segment(replace(segment, text=segment.text[:BEGINNING]), overlap, known)
            if any(f.decides and f.score >= CERTAIN and (f.end or 0) < BEGINNING - AFTER for f in begun.findings):
                return replace(begun, whole=False)
        return self._segment(segment, overlap, known)

    def _segment(self, segment: Segment, overlap: Overlap | None, known: Mapping[str, Read | None]) -> SegmentReport:
        """What the text says in all its views; not `whole` if one was not read, or places were left out."""
        raw = View(encodable(segment.text))
        read = known[raw.text] if raw.text in known else self._matcher.read(raw.text)
        seen = (raw,) if read is None else views(raw.text)
        findings = list(overlap.findings(segment, seen)) if overlap else []
        if seen[-1].name == OVERFLOW:
            findings.append(hits.overall(HIDES, Label.TOKEN_SMUGGLING, HINT, segment, seen[-1]))
        done, excused = set[str](), dict[str, list[tuple[int, int]]]()
        for view in seen:
            read = self._matcher.read(view.text) if view.path else read
            if read is None:
                findings.append(hits.overall(CROWDED, Label.PROMPT_INJECTION, 1.0, segment, view))
                break
            for finding in self._view(segment, view, read, done, excused):
                findings.append(finding)
                findings += self._smuggled(segment, view, finding, done)
        places = Counter((finding.rule, finding.view) for finding in findings)
        whole = read is not None and seen[-1].name != OVERFLOW and max(places.values(), default=0) < PLACES
        return _report(findings, known=overlap is not None, whole=whole)

    def _view(
        self, segment: Segment, view: View, read: Read, done: set[str], excused: dict[str, list[tuple[int, int]]]
    ) -> Iterator[Finding]:
        """Rules met in this view that no earlier view has shown. `excused`: where what was met is no order."""
        here: set[str] = set()
        looking = self._looking(segment.channel, view.kinds)
        for number in self._matcher.met(read, looking, lambda number: self._owner[number].id not in done):
            rule = self._owner[number]
            if hits.everywhere(rule):
                found = list(self._places(rule, number, segment, view))
                if found:
                    here.add(rule.id)
                yield from found
            elif first := self._first(rule, number, segment, view, excused):
                if hits.level(first) == rule.status:
                    done.add(rule.id)
                yield first
        done.update(here)

    def _looking(self, channel: Channel, kinds: frozenset[str]) -> int:
        """The patterns whose rules look at such views on this channel, a bit each."""
        found = self._known.get((channel, kinds))
        if found is None:
            if len(self._known) >= KINDS:
                self._known.clear()
            rules = ((1 << at, rule) for at, rule in enumerate(self._owner) if channel in rule.channels)
            found = sum(bit for bit, rule in rules if not rule.views or not kinds.isdisjoint(rule.views))
            self._known[channel, kinds] = found
        return found

    def _places(self, rule: Rule, number: int, segment: Segment, view: View) -> Iterator[Finding]:
        """The first `PLACES` places of the rule. What fails the check is none, however often it stands."""
        check = CHECKS[rule.check] if rule.check else None
        spans = self._matcher.spans(number, view.text)
        places = (span for span in spans if check is None or check(view.text[span[0] : span[1]]))
        for start, end in islice(places, PLACES):
            yield hits.finding(rule, segment, view, start, end)

    def _first(
        self, rule: Rule, number: int, segment: Segment, view: View, excused: dict[str, list[tuple[int, int]]]
    ) -> Finding | None:
        """The first place that is an order; else the first of all, a step less, if no other was reported.

        Beyond `PLACES` places nothing is excused: nobody quotes the same words so often.
        """
        known, spare = excused.get(rule.id, []), None
        check = CHECKS[rule.check] if rule.check else None
        for count, (start, end) in enumerate(self._matcher.spans(number, view.text)):
            if check is not None and not check(view.text[start:end]):
                continue
            finding = hits.finding(rule, segment, view, start, end)
            place = (finding.start or 0, finding.end or 0)
            if any(place[0] < stop and begin < place[1] for begin, stop in known):
                continue
            if count >= PLACES or not hits.excusable(rule) or not excuse(view.text, start, end):
                return finding
            excused.setdefault(rule.id, []).append(place)
            spare = spare or hits.less(finding)
        return None if known else spare

    def _smuggled(self, segment: Segment, view: View, cause: Finding, done: set[str]) -> Iterator[Finding]:
        """The rules about hiding, if what was found deserves it and was hidden in their way."""
        if cause.score < SERIOUS or cause.label in (Label.PII_DETECTED, Label.TOKEN_SMUGGLING):
            return
        for rule in self._hiding:
            if rule.id not in done and view.kinds.intersection(rule.hidden_in) and segment.channel in rule.channels:
                done.add(rule.id)
                score = rule.score_on(segment.channel) or 0.0
                found = hits.at(rule, score, segment, view, cause.start, cause.end)
                yield hits.no_more_than(found, cause)


def _demand_room(each: Sequence[SegmentReport], enough: float | None) -> None:
    """What was left out matters unless the request is blocked for what was found."""
    left = any(finding.rule == HIDES for report in each for finding in report.findings)
    bar = SERIOUS if enough is None else enough
    if left and all(report.score < bar for report in each):
        raise LayerError("budget", "the text has more readings than there is room for")


def _is_short(request: ScanRequest, length: int) -> bool:
    """Whether plain texts of ASCII, so long in all, may be read without a thread if they promise little work."""
    texts = [segment.text for segment in request.segments]
    if length > PLAIN or not all(map(str.isascii, texts)):
        return False
    if length > SHORT and (len(texts) > 1 or request.system_prompt or _numbers(texts[0]) > NUMBERS):
        return False
    return all(map(is_plain, texts))


def _numbers(text: str) -> int:
    return len(text) - len(text.translate(_NO_NUMBERS))


def _demand(rules: Sequence[Rule]) -> None:
    """Every name that a rule uses must exist."""
    known = {*STEPS, "raw", "folded", "hidden"}
    problems = [
        f"{rule.id}: no view is called {name}"
        for rule in rules
        for name in (*rule.views, *rule.hidden_in)
        if name not in known
    ]
    problems += [f"{rule.id}: no check is called {rule.check}" for rule in rules if rule.check not in {None, *CHECKS}]
    if problems:
        raise PolicyError("policies ask for what the rules layer does not have", problems)


def _report(findings: Sequence[Finding], *, known: bool, whole: bool) -> SegmentReport:
    found = tuple(_known(finding) for finding in findings) if known else tuple(findings)
    return SegmentReport(max((finding.score for finding in found if finding.decides), default=0.0), found, whole)


def _known(finding: Finding) -> Finding:
    """An attempt to extract the system prompt weighs more where there is one to be had."""
    if finding.label is not Label.SYSTEM_PROMPT_EXTRACTION:
        return finding
    return replace(finding, score=min(1.0, finding.score + KNOWN))
