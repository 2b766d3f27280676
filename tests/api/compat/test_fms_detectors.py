"""Twin of sidecar/api/compat/fms_detectors.py: the detector API of the FMS guardrails orchestrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat_server import run_compat_server

from sidecar.api.compat.fms_detectors import _detection, _found, _place
from sidecar.scan.service import ScanOutcome
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Source, Verdict

EVIL = "Please EVIL now."
CONTENTS, CHAT = "/api/v1/text/contents", "/api/v1/text/chat"
DOCUMENTS, GENERATION = "/api/v1/text/context/doc", "/api/v1/text/generation"
CARD = "It is 4111 1111 1111 1111."


def outcome(*findings: Finding, threats: tuple[Label, ...], action: str = "block") -> ScanOutcome:
    """An outcome with these findings."""
    reports = (LayerReport(LayerName.RULES, 0.9, findings),)
    return ScanOutcome(Verdict(0.9, Action.BLOCK, threats, 1, LayerName.RULES, reports=reports), action)


def spans(found: ScanOutcome, text: str) -> list[dict[str, Any]]:
    """The detections of `contents`."""
    return [_detection(found, *pair) | _place(text, pair[1]) for pair in _found(found)]


async def test_every_text_has_its_own_list(tmp_path: Path) -> None:
    """In their order, each with its own decision in the log."""
    async with run_compat_server(tmp_path, "fms_detectors") as server:
        _, reply, headers = await server.ask(CONTENTS, {"contents": ["Hi", EVIL, "Bye"]}, detector_id="any")
    assert [len(found) for found in reply] == [0, 1, 0]
    assert len({decision.id for decision in server.decision_log.decisions}) == 3
    assert server.decision_log.decisions[-1].id == headers["x-sidecar-decision"]


def test_a_finding_has_its_place_and_a_label_without_one_is_the_whole_text() -> None:
    """A judge's label has no finding, and a model's may have no place."""
    text = "Write to ada@example.com, please."
    mail = Finding("PII-100", Label.PII_DETECTED, 0.3, LayerName.RULES, "contents.0", 9, 24)
    shadow = Finding("X-1", Label.JAILBREAK, 1.0, LayerName.RULES, "contents.0", 0, 5, decides=False)
    found = outcome(mail, shadow, threats=(Label.JAILBREAK, Label.PII_DETECTED))
    attack = {"detection": "jailbreak", "detection_type": "prompt_attack", "score": 0.9}
    assert spans(found, text) == [
        attack | {"start": 0, "end": len(text), "text": text},
        {"detection": "email", "detection_type": "pii", "score": 0.3, "start": 9, "end": 24, "text": "ada@example.com"},
    ]


def test_what_passes_has_no_detection_and_what_is_refused_has_one() -> None:
    """The orchestrator refuses by what it finds in the list, whatever the findings below our threshold."""
    hint = Finding("INJ-1", Label.PROMPT_INJECTION, 0.3, LayerName.RULES, "contents.0", 0, 6)
    assert spans(outcome(hint, threats=(), action="allow"), EVIL) == []
    assert [found["detection"] for found in spans(outcome(threats=()), EVIL)] == ["blocked"]


async def test_documents_are_from_outside_and_addresses_are_named(tmp_path: Path) -> None:
    """A document's text is untrusted; what stands behind an address no layer reads."""
    body: dict[str, Any] = {"content": "When?", "context_type": "docs", "context": ["Harbour.", EVIL]}
    pages = {"content": "When?", "context_type": "url", "context": ["https://harbour.example/"]}
    async with run_compat_server(tmp_path, "fms_detectors") as server:
        _, reply, headers = await server.ask(DOCUMENTS, body)
        _, named, told = await server.ask(DOCUMENTS, pages)
    sources = {segment.text: segment.source for segment in server.scanner.scanned[0].segments}
    assert (len(reply), sources["When?"], sources[EVIL]) == (1, Source.USER, Source.UNTRUSTED)
    assert (named, told["x-sidecar-unscanned"], "x-sidecar-unscanned" in headers) == ([], "reference", False)
    async with run_compat_server(tmp_path, "fms_detectors", failure={"input": {"reference": "block"}}) as server:
        status, refused, _ = await server.ask(DOCUMENTS, pages)
    assert (status, set(refused)) == (422, {"code", "message"})


def told(path: str, asked: str) -> dict[str, Any]:
    """An answer with a card, in the form of this path."""
    if path == GENERATION:
        return {"prompt": asked, "generated_text": CARD}
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": CARD}]}


@pytest.mark.parametrize("path", [GENERATION, CHAT])
async def test_an_answer_is_scanned_with_its_prompt(tmp_path: Path, path: str) -> None:
    """A card is found, unless the user wrote it himself; with `responses: off` the answer is named."""
    async with run_compat_server(tmp_path, "fms_detectors", responses="block", answers={"find": ["pii"]}) as server:
        _, reply, headers = await server.ask(path, told(path, "card?"))
        _, known, _ = await server.ask(path, told(path, "Is 4111 1111 1111 1111 valid?"))
    assert ([found["detection"] for found in reply], known) == (["card"], [])
    assert "x-sidecar-unscanned" not in headers
    async with run_compat_server(tmp_path, "fms_detectors") as server:
        _, reply, headers = await server.ask(path, told(path, "card?"))
    assert (reply, headers["x-sidecar-unscanned"]) == ([], "answer")


@pytest.mark.parametrize("contents", [[], ["x"] * 101, None, "x", [1]])
async def test_errors_have_a_code_and_a_message(tmp_path: Path, contents: object) -> None:
    """In the form that the orchestrator reads, 422 for every body that cannot be used."""
    async with run_compat_server(tmp_path, "fms_detectors") as server:
        status, reply, _ = await server.ask(CONTENTS, {"contents": contents})
    assert (status, reply["code"], bool(reply["message"])) == (422, 422, True)
    assert server.scanner.scanned == []
