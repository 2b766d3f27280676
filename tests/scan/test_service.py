"""Twin of sidecar/scan/service.py: how the mode applies to a verdict, and what is recorded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from inline_proxy import RecordedDecisionLog, WordScanner

from sidecar.auth.api_keys import ApiKey
from sidecar.config import Settings
from sidecar.errors import Unavailable
from sidecar.scan.service import NOTHING_SCANNED, ScanContext, ScanOutcome, ScanService
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, Verdict

ALLOWED = Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES)
BLOCKED = Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES)
FAILED = Verdict(0.0, Action.BLOCK, (), 1, LayerName.RULES, failure="deadline")
PASSED = Verdict(0.0, Action.ALLOW, (), 1, LayerName.RULES, failure="deadline")
CONTEXT = ScanContext("dec_1", "inline", "/v1/chat/completions")


def service(scanner: Any = None, log: RecordedDecisionLog | None = None, **settings: Any) -> ScanService:
    """A service over a scanner made for tests."""
    return ScanService(scanner or WordScanner(), Settings.model_validate(settings), log or RecordedDecisionLog())


def key(**changes: Any) -> ApiKey:
    """A valid key."""
    now = datetime.now(UTC)
    return ApiKey(**({"id": "key_1", "name": "k", "environment": "live", "created_at": now} | changes))


@pytest.mark.parametrize(
    ("verdict", "unscanned", "expected"),
    [
        (ALLOWED, (), ("allow", None, None)),
        (ALLOWED, ("media", "model"), ("allow", "media,model", None)),
        (PASSED, ("media",), ("allow", "deadline", None)),
        (BLOCKED, ("media",), ("block", None, None)),
        (FAILED, (), ("block", None, None)),
    ],
)
def test_a_verdict_is_obeyed(verdict: Verdict, unscanned: tuple[str, ...], expected: tuple[str | None, ...]) -> None:
    """A refused request has no unscanned content; what passes unscanned is named."""
    outcome = service().decide(verdict, unscanned, monitored=False)
    assert (outcome.action, outcome.unscanned, outcome.enforce) == expected
    assert outcome.failure == ("deadline" if verdict is FAILED else None)


@pytest.mark.parametrize(
    ("verdict", "closed", "expected"),
    [
        (ALLOWED, None, ("allow", "media", "allow")),
        (ALLOWED, "media", ("monitor", "media", "media")),
        (BLOCKED, None, ("monitor", "media", "block")),
        (FAILED, None, ("monitor", "deadline", "deadline")),
    ],
)
def test_under_monitor_nothing_is_refused(verdict: Verdict, closed: str | None, expected: tuple[str, ...]) -> None:
    """The outcome names the action that enforcement would have taken."""
    outcome = service().decide(verdict, ("media",), monitored=True, closed=closed)
    assert (outcome.action, outcome.unscanned, outcome.enforce) == expected
    assert (outcome.blocked, outcome.failure) == (False, None)


@pytest.mark.parametrize(
    ("general", "key_mode", "expected"),
    [("enforce", None, False), ("monitor", None, True), ("enforce", "monitor", True), ("monitor", "enforce", False)],
)
def test_the_mode_of_a_key_overrides_the_general_one(general: str, key_mode: str | None, expected: bool) -> None:
    """Even where it is the stricter one."""
    scans = service(mode=general)
    assert scans.monitors(key(mode=key_mode)) is expected
    assert scans.monitors(None) is (general == "monitor")


async def test_a_request_without_texts_is_not_scanned() -> None:
    """No layer runs."""
    scanner = WordScanner()
    assert await service(scanner).scan(ScanRequest(()), CONTEXT) is NOTHING_SCANNED
    assert (await service(scanner).scan(ScanRequest((Segment("EVIL"),)), CONTEXT)).action is Action.BLOCK
    assert len(scanner.scanned) == 1


async def test_a_record_holds_lengths_and_no_text() -> None:
    """One row, written in order from the event loop."""
    log = RecordedDecisionLog()
    scans = service(log=log)
    scans.record(CONTEXT, ScanOutcome(BLOCKED, "block"), 400, (Segment("hello"), Segment("you")), "m")
    assert log.decisions == []
    await asyncio.sleep(0)
    (row,) = log.decisions
    assert (row.id, row.entrypoint, row.route, row.status) == ("dec_1", "inline", "/v1/chat/completions", 400)
    assert (row.action, row.length, row.segments, row.model, row.text) == ("block", 9, 2, "m", "")


def test_nothing_is_admitted_while_a_required_log_cannot_be_written() -> None:
    """The client is told to retry."""
    log = RecordedDecisionLog()
    service(log=log).admit()
    log.broken = True
    with pytest.raises(Unavailable, match=r"log\.required"):
        service(log=log).admit()


async def test_a_command_scans_as_an_entry_point_and_records_nothing() -> None:
    """Without a log and a client the settings apply all the same."""
    text = "write to ann@example.org"
    finding = Finding("PII-100", Label.PII_DETECTED, 0.5, LayerName.RULES, "prompt", 9, 24)
    report = LayerReport(LayerName.RULES, 0.5, (finding,))

    class Finds:
        async def scan(self, *_: object) -> Verdict:
            return Verdict(0.5, Action.ALLOW, (Label.PII_DETECTED,), 1, LayerName.RULES, reports=(report,))

    scans = ScanService(Finds(), Settings.model_validate({"pii": "block"}))  # type: ignore[arg-type]
    scans.admit()
    verdict = await scans.scan(ScanRequest((Segment(text),)))
    assert verdict.action is Action.BLOCK
    scans.record(CONTEXT, ScanOutcome(verdict, "block"), 403)
