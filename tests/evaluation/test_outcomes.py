"""Twin of sidecar/evaluation/outcomes.py."""

from __future__ import annotations

import pytest

from sidecar.config import Settings
from sidecar.evaluation import Outcome, Row, UnitScanner
from sidecar.evaluation.conversations import document
from sidecar.evaluation.outcomes import check
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Verdict

BAD = "zebra"


async def scan(request: ScanRequest) -> Verdict:
    """Blocks what holds the word, and else is too slow for some."""
    bad = next((segment for segment in request.segments if BAD in segment.text), None)
    if bad is None and any(segment.text == "late" for segment in request.segments):
        return Verdict(0.0, Action.BLOCK, (), 1, LayerName.RULES, failure="deadline")
    if bad is None:
        return Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES)
    findings = (
        Finding("T-9", Label.JAILBREAK, 0.99, LayerName.RULES, "elsewhere", decides=False),
        Finding("T-1", Label.JAILBREAK, 0.9, LayerName.RULES, bad.path),
    )
    report = LayerReport(LayerName.RULES, 0.9, findings)
    return Verdict(0.9, Action.BLOCK, (Label.JAILBREAK,), 1, LayerName.RULES, reports=(report,), blocking_path=bad.path)


def conversation(*contents: str) -> Row:
    """Turns of user and model in turn."""
    turns = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(contents)]
    body = {"model": "m", "messages": turns}
    return Row("c", "", frozenset(), True, form="conversation", body=body, operation="/chat/completions")


async def outcome(row: Row, *, growing: bool = False) -> Outcome:
    """The row, scanned under default settings."""
    return await UnitScanner(scan, Settings(), growing=growing).outcome(row)


async def test_a_text_a_document_and_a_conversation_are_scanned() -> None:
    """The text as it is, the others as request bodies; the place and the first cause are kept."""
    row = await outcome(Row("r", BAD, frozenset(), True))
    assert (row.blocked, row.cause, row.line()["path"]) == (True, "T-1", "prompt")
    indirect = Row("d", BAD, frozenset(), True, body=document(BAD, indirect=True), operation="/chat/completions")
    assert (await outcome(indirect)).line()["path"] == "messages.1.content"
    assert not (await outcome(conversation("hi", "Hello.", "thanks"))).blocked


@pytest.mark.parametrize(("growing", "requests", "refused"), [(False, 1, 1), (True, 3, 2)])
async def test_a_growing_conversation_is_scanned_request_by_request(growing: bool, requests: int, refused: int) -> None:
    """Every request from the bad turn on is refused, and so is the conversation."""
    result = await outcome(conversation("hi", "Hello.", BAD, "No.", "thanks"), growing=growing)
    line = result.line()
    assert (result.blocked, line["requests"], line["refused"]) == (True, requests, refused)


async def test_what_cannot_be_scanned_is_marked_as_such() -> None:
    """By a failure of the scan, or by what `failure.input` refuses; it is not blocked."""
    late = await outcome(Row("r", "late", frozenset(), True))
    assert (late.blocked, late.unscanned, late.cause) == (False, True, "deadline")
    ids = Row("e", "", frozenset(), True, body={"model": "m", "input": [[1, 2]]}, operation="/embeddings")
    assert (await outcome(ids)).line() | {"latency_ms": 0} == {
        "label": "benign",
        "id": "e",
        "check": check(ids.content),
        "risk_score": 0.0,
        "action": "block",
        "threats": [],
        "layer_used": "rules",
        "latency_ms": 0,
        "failure": "token_ids",
        "cause": "token_ids",
        "path": "input.0",
        "source": None,
        "requests": 1,
        "refused": 0,
        "unscanned": 1,
    }


async def test_a_refusal_outweighs_what_could_not_be_scanned() -> None:
    """A conversation with both is refused."""
    result = await outcome(conversation("late", "Hello.", BAD), growing=True)
    assert (result.blocked, result.unscanned, result.line()["unscanned"]) == (True, False, 1)


async def test_a_body_without_texts_passes() -> None:
    """As at the inline door."""
    row = Row("e", "", frozenset(), True, form="conversation", body={"model": "m"}, operation="/responses")
    assert not (await outcome(row)).blocked


async def test_the_line_of_a_unit_holds_no_text() -> None:
    """`--out` writes the verdict, never what was said."""
    assert BAD not in str((await outcome(conversation(BAD))).line())
