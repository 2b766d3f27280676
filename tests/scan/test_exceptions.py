"""Twin of sidecar/scan/exceptions.py: on a real store, and with a real engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from sidecar.errors import RequestError
from sidecar.extraction import extraction
from sidecar.scan import exceptions
from sidecar.scan.aggregation import MAX_INLINE_FINDINGS
from sidecar.scan.engine import Caller, Engine, EngineConfig, Stage
from sidecar.scan.exceptions import RuleExceptions
from sidecar.storage import Store
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport
from sidecar.util.bulkhead import Bulkhead

MONTH = timedelta(days=30)
LESSON = "Today's lesson: what does EVIL mean?"


@pytest.fixture
async def rule_exceptions(tmp_path: Path) -> AsyncIterator[RuleExceptions]:
    """Exceptions on an empty store."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    rule_exceptions = RuleExceptions(store)
    await rule_exceptions.start()
    yield rule_exceptions
    await rule_exceptions.close()
    await store.close()


async def mark(rule_exceptions: RuleExceptions, text: str, rule: str = "T-EVIL", **options: object) -> str:
    """Except a rule on a text."""
    terms = {"lasts": MONTH, "reason": "a lesson", "author": "anna", **options}
    return (await rule_exceptions.add(rule, rule_exceptions.digest(text), **terms)).id  # type: ignore[arg-type]


@dataclass
class Words:
    """Finds the words EVIL and WORSE, each by its rule; stops early at `enough`."""

    name: LayerName = LayerName.RULES
    prefix: str = "T"

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Report on each segment."""
        reports: list[SegmentReport] = []
        for segment in request.segments:
            if request.sufficient_score is not None and any(
                report.score >= request.sufficient_score for report in reports
            ):
                reports.append(SegmentReport(0.0, (), complete=False))
                continue
            findings = tuple(
                Finding(f"{self.prefix}-{word}", Label.JAILBREAK, 0.9, self.name, segment.path)
                for word in ("EVIL", "WORSE")
                if word in segment.text
            )
            reports.append(SegmentReport(0.9 if findings else 0.0, findings))
        return LayerReport.from_segments(self.name, reports)


def engine(rule_exceptions: RuleExceptions) -> Engine:
    """As served: layers may stop early."""
    return Engine([Stage(Words())], EngineConfig(early=True), Bulkhead(8, 8), rule_exceptions)


def conversation(*texts: str) -> ScanRequest:
    """A conversation as the inline proxy reads it, with joined turns."""
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    extraction_result = extraction.extract(body, "/chat/completions", "openai")
    return ScanRequest((*extraction_result.segments, *extraction_result.joined))


async def test_a_blocking_finding_has_a_digest_and_an_exception_for_it_allows_the_text(
    rule_exceptions: RuleExceptions,
) -> None:
    """The digest is sufficient for an exception; the finding stays in the record without deciding."""
    blocked = await engine(rule_exceptions).scan(conversation(LESSON))
    (finding,) = blocked.findings
    assert (blocked.action, finding.digest) == (Action.BLOCK, rule_exceptions.digest(LESSON))
    await rule_exceptions.add(finding.rule, finding.digest, lasts=MONTH, reason="a lesson", author="anna")
    allowed = await engine(rule_exceptions).scan(conversation(LESSON))
    assert (allowed.action, allowed.risk_score, allowed.threats) == (Action.ALLOW, 0.0, ())
    assert [(f.rule, f.decides, f.excepted, f.digest) for f in allowed.findings] == [("T-EVIL", False, True, "")]
    assert not finding.excepted


async def test_hundreds_of_blocking_findings_have_the_digests_of_their_texts(rule_exceptions: RuleExceptions) -> None:
    """More than the event loop handles itself."""
    texts = [f"{LESSON} {number}" for number in range(MAX_INLINE_FINDINGS + 1)]
    request = ScanRequest(tuple(Segment(text, path=text) for text in texts))
    verdict = await Engine([Stage(Words())], EngineConfig(), Bulkhead(8, 8), rule_exceptions).scan(request)
    assert [(f.path, f.digest) for f in verdict.findings] == [(text, rule_exceptions.digest(text)) for text in texts]


@pytest.mark.parametrize("text", [LESSON + " ", LESSON.lower() + " EVIL", "EVIL", LESSON + " WORSE"])
async def test_another_text_is_still_refused(rule_exceptions: RuleExceptions, text: str) -> None:
    """An exception holds for exactly one text."""
    await mark(rule_exceptions, LESSON)
    assert (await engine(rule_exceptions).scan(conversation(text))).action is Action.BLOCK


async def test_another_rule_on_the_same_text_still_decides(rule_exceptions: RuleExceptions) -> None:
    """An exception covers one rule only."""
    pair = "EVIL and WORSE"
    await mark(rule_exceptions, pair)
    assert (await engine(rule_exceptions).scan(conversation(pair))).action is Action.BLOCK
    await mark(rule_exceptions, pair, "T-WORSE")
    assert (await engine(rule_exceptions).scan(conversation(pair))).action is Action.ALLOW


async def test_an_exception_may_cover_all_rules_of_a_layer(rule_exceptions: RuleExceptions) -> None:
    """Of that layer alone, and on that text."""
    scanner = Engine(
        [Stage(Words()), Stage(Words(LayerName.SEMANTIC, "S"))],
        EngineConfig(early=True),
        Bulkhead(8, 8),
        rule_exceptions,
    )
    await mark(rule_exceptions, LESSON)
    assert (await scanner.scan(conversation(LESSON))).layer_used is LayerName.SEMANTIC
    await mark(rule_exceptions, LESSON, "semantic:*")
    assert (await scanner.scan(conversation(LESSON))).action is Action.ALLOW
    assert (await scanner.scan(conversation(LESSON + " WORSE"))).action is Action.BLOCK


@dataclass
class Whole:
    """Scores the whole request, as the judge does."""

    name: LayerName = LayerName.LLM_JUDGE

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Find EVIL anywhere."""
        found = any("EVIL" in segment.text for segment in request.segments)
        finding = Finding("J-1", Label.JAILBREAK, 0.9, self.name, request.segments[-1].path)
        return LayerReport(self.name, 0.9 if found else 0.0, (finding,) if found else ())


async def test_a_verdict_on_the_whole_request_can_be_excepted_if_it_has_one_text(
    rule_exceptions: RuleExceptions,
) -> None:
    """With several it is not known whose verdict it is, and an exception for one does not touch it."""
    scanner = Engine([Stage(Whole())], EngineConfig(), Bulkhead(8, 8), rule_exceptions)
    single = ScanRequest((Segment(LESSON),))
    (finding,) = (await scanner.scan(single)).findings
    assert finding.digest == rule_exceptions.digest(LESSON)
    several = ScanRequest((Segment(LESSON), Segment("Be EVIL.")))
    assert [finding.digest for finding in (await scanner.scan(several)).findings] == [""]
    await mark(rule_exceptions, LESSON, "llm_judge:*")
    assert (await scanner.scan(single)).action is Action.ALLOW
    assert (await scanner.scan(several)).action is Action.BLOCK


async def test_an_exception_for_one_key_is_no_exception_for_others(rule_exceptions: RuleExceptions) -> None:
    """It does not hold for requests without a key, either."""
    await mark(rule_exceptions, LESSON, key_id="k1234567")
    scanner = engine(rule_exceptions)
    actions = [(await scanner.scan(conversation(LESSON), Caller(key))).action for key in ("k1234567", "k7654321", None)]
    assert actions == [Action.ALLOW, Action.BLOCK, Action.BLOCK]


async def test_an_exception_follows_the_successors_of_its_key(rule_exceptions: RuleExceptions) -> None:
    """Also the successor of a successor; it does not hold for a key that comes before."""
    await mark(rule_exceptions, LESSON, key_id="k2222222")
    scanner, actions = engine(rule_exceptions), []
    for key, former in (("k1111111", ()), ("k3333333", ("k2222222",)), ("k4444444", ("k3333333", "k2222222"))):
        actions.append((await scanner.scan(conversation(LESSON), Caller(key, former_ids=former))).action)
    assert actions == [Action.BLOCK, Action.ALLOW, Action.ALLOW]


async def test_an_excepted_turn_does_not_poison_the_conversation_nor_hide_what_follows(
    rule_exceptions: RuleExceptions,
) -> None:
    """It is left out of joined segments; an attack beside it is found, and so is one split around it."""
    await mark(rule_exceptions, LESSON)
    scanner = engine(rule_exceptions)
    assert (await scanner.scan(conversation(LESSON, "And what is good?"))).action is Action.ALLOW
    assert (await scanner.scan(conversation(LESSON, "Now be EVIL."))).action is Action.BLOCK
    assert (await scanner.scan(conversation(LESSON, "WORSE"))).action is Action.BLOCK


async def test_an_excepted_letter_erases_nothing_of_other_turns(rule_exceptions: RuleExceptions) -> None:
    """Only the part that is the excepted text is left out of joined segments."""
    await mark(rule_exceptions, "E")
    content = [{"type": "text", "text": text} for text in ("E", "Now be EV", "IL.")]
    body = extraction.extract({"messages": [{"role": "user", "content": content}]}, "/chat/completions", "openai")
    request = ScanRequest((*body.segments, *body.joined))
    assert (await engine(rule_exceptions).scan(request)).action is Action.BLOCK


async def test_a_text_that_contains_an_excepted_one_is_read_whole(rule_exceptions: RuleExceptions) -> None:
    """Only joined segments are read without the excepted text."""
    await mark(rule_exceptions, LESSON)
    assert (await engine(rule_exceptions).scan(conversation(f"{LESSON} Now be EVIL."))).action is Action.BLOCK


async def test_an_exception_ends_with_its_time_and_with_its_revocation(rule_exceptions: RuleExceptions) -> None:
    """It ends at once on the replica that revoked it."""
    await mark(rule_exceptions, LESSON, lasts=timedelta(seconds=0.3))
    await asyncio.sleep(0.35)
    assert (await engine(rule_exceptions).scan(conversation(LESSON))).action is Action.BLOCK
    exception_id = await mark(rule_exceptions, LESSON)
    assert (await engine(rule_exceptions).scan(conversation(LESSON))).action is Action.ALLOW
    assert await rule_exceptions.revoke(exception_id, "bert")
    assert not await rule_exceptions.revoke(exception_id, "bert")
    assert (await engine(rule_exceptions).scan(conversation(LESSON))).action is Action.BLOCK


async def test_another_replica_knows_of_it_within_five_seconds(tmp_path: Path, rule_exceptions: RuleExceptions) -> None:
    """Both addition and revocation, by polling the store."""
    other = RuleExceptions(rule_exceptions._store)
    await other.start()
    began = time.monotonic()
    exception_id = await mark(rule_exceptions, LESSON)
    for there in (True, False):
        while bool(other.rules_for([Segment(LESSON)], ())) is not there:
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.05)
        await rule_exceptions.revoke(exception_id, "bert")
    await other.close()


async def test_exceptions_end_when_the_store_does_not_answer(rule_exceptions: RuleExceptions) -> None:
    """Exceptions that could not be refreshed for a minute no longer hold."""
    await mark(rule_exceptions, LESSON)
    assert rule_exceptions.rules_for([Segment(LESSON)], ()) == (frozenset({"T-EVIL"}),)
    rule_exceptions._refreshed_at -= exceptions.STALE + 1
    assert rule_exceptions.rules_for([Segment(LESSON)], ()) == ()


@pytest.mark.parametrize(
    ("rule", "options"),
    [("", {}), ("R", {"lasts": timedelta(0)}), ("R", {"lasts": timedelta(days=400)}), ("R", {"reason": " "})],
)
async def test_an_exception_has_a_rule_an_end_and_a_reason(
    rule_exceptions: RuleExceptions, rule: str, options: dict[str, object]
) -> None:
    """Invalid arguments are refused, and nothing is written."""
    with pytest.raises(RequestError):
        await mark(rule_exceptions, "text", rule, **options)
    assert await rule_exceptions._store.exceptions.query() == []
