"""Twin of sidecar/scan/exceptions.py: on a real store, and what an engine makes of it."""

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
from sidecar.scan.engine import Caller, Engine, Stage, Terms
from sidecar.scan.exceptions import Exemptions
from sidecar.storage import Store
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport
from sidecar.util.bulkhead import Bulkhead

MONTH = timedelta(days=30)
LESSON = "Today's lesson: what does EVIL mean?"


@pytest.fixture
async def known(tmp_path: Path) -> AsyncIterator[Exemptions]:
    """Exceptions on an empty store."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    made = Exemptions(store)
    await made.start()
    yield made
    await made.close()
    await store.close()


async def mark(known: Exemptions, text: str, rule: str = "T-EVIL", **options: object) -> str:
    """Except a rule on a text."""
    terms = {"lasts": MONTH, "reason": "a lesson", "author": "anna", **options}
    return (await known.add(rule, known.digest(text), **terms)).id  # type: ignore[arg-type]


@dataclass
class Words:
    """Finds the words EVIL and WORSE, each by its rule; stops at the first segment if that is enough."""

    name: LayerName = LayerName.RULES

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Report on each segment."""
        each: list[SegmentReport] = []
        for segment in request.segments:
            if request.sufficient_score is not None and any(one.score >= request.sufficient_score for one in each):
                each.append(SegmentReport(0.0, (), complete=False))
                continue
            found = tuple(
                Finding(f"T-{word}", Label.JAILBREAK, 0.9, self.name, segment.path)
                for word in ("EVIL", "WORSE")
                if word in segment.text
            )
            each.append(SegmentReport(0.9 if found else 0.0, found))
        return LayerReport.from_segments(self.name, each)


def engine(known: Exemptions) -> Engine:
    """As served: layers may stop early."""
    return Engine([Stage(Words())], Terms(early=True), Bulkhead(8, 8), known)


def said(*texts: str) -> ScanRequest:
    """A conversation as the inline door reads it, turns joined."""
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    found = extraction.extract(body, "/chat/completions", "openai")
    return ScanRequest((*found.segments, *found.joined))


async def test_a_block_says_by_what_its_text_is_known_and_an_exception_allows_it(known: Exemptions) -> None:
    """The digest of the finding is all that it takes; the finding stays in the record and decides nothing."""
    blocked = await engine(known).scan(said(LESSON))
    (found,) = blocked.findings
    assert (blocked.action, found.digest) == (Action.BLOCK, known.digest(LESSON))
    await known.add(found.rule, found.digest, lasts=MONTH, reason="a lesson", author="anna")
    allowed = await engine(known).scan(said(LESSON))
    assert (allowed.action, allowed.risk_score, allowed.threats) == (Action.ALLOW, 0.0, ())
    assert [(f.rule, f.decides, f.digest) for f in allowed.findings] == [("T-EVIL", False, "")]


@pytest.mark.parametrize("text", [LESSON + " ", LESSON.lower() + " EVIL", "EVIL", LESSON + " WORSE"])
async def test_another_text_is_still_refused(known: Exemptions, text: str) -> None:
    """An exception is for one text, to the letter."""
    await mark(known, LESSON)
    assert (await engine(known).scan(said(text))).action is Action.BLOCK


async def test_another_rule_on_the_same_text_still_decides(known: Exemptions) -> None:
    """What nobody has looked at is not excepted with it."""
    both = "EVIL and WORSE"
    await mark(known, both)
    assert (await engine(known).scan(said(both))).action is Action.BLOCK
    await mark(known, both, "T-WORSE")
    assert (await engine(known).scan(said(both))).action is Action.ALLOW


async def test_an_exception_for_one_key_is_no_exception_for_others(known: Exemptions) -> None:
    """Nor for those without a key; one for every key holds for all."""
    await mark(known, LESSON, key_id="k1234567")
    one = engine(known)
    actions = [(await one.scan(said(LESSON), Caller(key))).action for key in ("k1234567", "k7654321", None)]
    assert actions == [Action.ALLOW, Action.BLOCK, Action.BLOCK]


async def test_an_excepted_turn_does_not_poison_the_conversation_nor_hide_what_follows(known: Exemptions) -> None:
    """Joined with other turns it is left out; an attack beside it is found, and so is one split around it."""
    await mark(known, LESSON)
    one = engine(known)
    assert (await one.scan(said(LESSON, "And what is good?"))).action is Action.ALLOW
    assert (await one.scan(said(LESSON, "Now be EVIL."))).action is Action.BLOCK
    assert (await one.scan(said(LESSON, "WORSE"))).action is Action.BLOCK


async def test_a_text_that_contains_an_excepted_one_is_read_whole(known: Exemptions) -> None:
    """Only what we joined ourselves is read without it."""
    await mark(known, LESSON)
    assert (await engine(known).scan(said(f"{LESSON} Now be EVIL."))).action is Action.BLOCK


async def test_an_exception_ends_with_its_time_and_with_its_revocation(known: Exemptions) -> None:
    """At once on the replica that revoked it."""
    await mark(known, LESSON, lasts=timedelta(seconds=0.3))
    await asyncio.sleep(0.35)
    assert (await engine(known).scan(said(LESSON))).action is Action.BLOCK
    made = await mark(known, LESSON)
    assert (await engine(known).scan(said(LESSON))).action is Action.ALLOW
    assert await known.revoke(made, "bert")
    assert not await known.revoke(made, "bert")
    assert (await engine(known).scan(said(LESSON))).action is Action.BLOCK


async def test_another_replica_knows_of_it_within_five_seconds(tmp_path: Path, known: Exemptions) -> None:
    """Both ways, by asking the store."""
    other = Exemptions(known._store)
    await other.start()
    began = time.monotonic()
    made = await mark(known, LESSON)
    for there in (True, False):
        while bool(other.of([Segment(LESSON)], None)) is not there:
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.05)
        await known.revoke(made, "bert")
    await other.close()


async def test_a_store_that_stays_silent_ends_all_exceptions(known: Exemptions) -> None:
    """What cannot be checked for a minute is not believed."""
    await mark(known, LESSON)
    assert known.of([Segment(LESSON)], None) == (frozenset({"T-EVIL"}),)
    known._known_at -= exceptions.STALE + 1
    assert known.of([Segment(LESSON)], None) == ()


@pytest.mark.parametrize(
    ("rule", "options"),
    [("", {}), ("R", {"lasts": timedelta(0)}), ("R", {"lasts": timedelta(days=400)}), ("R", {"reason": " "})],
)
async def test_an_exception_has_a_rule_an_end_and_a_reason(
    known: Exemptions, rule: str, options: dict[str, object]
) -> None:
    """Else it is refused, and nothing is written."""
    with pytest.raises(RequestError):
        await mark(known, "text", rule, **options)
    assert await known._store.exceptions.query() == []
