"""Twin of benchmarks/leaks.py: detection on its two hundred leaks and thousand ordinary answers, in process."""

from __future__ import annotations

import json
import statistics
from typing import Any

import pytest
from inline_proxy import personal

from benchmarks.answer_cases import Case
from benchmarks.leak_cases import leaks, ordinary
from benchmarks.leaks import sets_of_cases
from sidecar.config import Answers
from sidecar.extraction.extraction import Extraction, extract
from sidecar.response_scan.detector import ResponseDetector
from sidecar.response_scan.leaks import Leaks
from sidecar.response_scan.sse import parse_event
from sidecar.response_scan.stream_buffer import StreamBuffer

SIZE = 4
DEFAULT = Answers()
WITH_PII = Answers(find=("system_prompt", "pii", "secrets"))


class LeakDetected(Exception):
    """The scan has a finding."""


async def is_detected(case: Case, *, stream: bool, settings: Answers = DEFAULT) -> bool:
    """Whether an answer is flagged, whole or in pieces."""
    system, user, text = case
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    texts = extract({"messages": messages}, "/chat/completions", "openai")
    detector = await ResponseDetector.create(personal(), settings, texts)
    if not stream:
        return bool(await detector.findings([(text, "p")]))
    return (await streamed(detector, text))[0]


async def streamed(detector: ResponseDetector, text: str) -> tuple[bool, list[str]]:
    """Whether a stream is withheld, and the released text after each of its pieces."""

    async def scan(text: str, path: str) -> None:
        if await detector.findings([(text, path)]):
            raise LeakDetected

    buffer, released = StreamBuffer(scan, Answers().hold, None, (await detector.lookahead()).releasable_prefix), [""]
    try:
        for start in range(0, len(text), SIZE):
            events = await buffer.add(parse_event(_event(text[start : start + SIZE])))
            released.append(released[-1] + "".join(piece.text for event in events for piece in event.pieces))
        await buffer.finish()
    except LeakDetected:
        return True, released
    return False, released


def _event(text: str) -> bytes:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@pytest.mark.parametrize("stream", [False, True])
async def test_leaks_are_caught(stream: bool) -> None:
    """At least 99 % of 200 quotations of eight words or more are caught, and all of 40 secrets, whole and streamed."""
    cases = sets_of_cases()
    missed = [case for case in cases["leaks"] if not await is_detected(case, stream=stream)]
    assert len(set(cases["leaks"])) == 200
    assert len(missed) <= 2, missed
    assert len(set(cases["secrets"])) == 40
    assert [case for case in cases["secrets"] if not await is_detected(case, stream=stream)] == []


@pytest.mark.parametrize(("stream", "settings"), [(False, DEFAULT), (True, DEFAULT), (False, WITH_PII)])
async def test_ordinary_answers_pass(settings: Answers, *, stream: bool) -> None:
    """At most 5 of 1,000 are withheld, those with seven consecutive words of the system prompt among them."""
    cases = sets_of_cases()["ordinary"]
    flagged = [case for case in cases if await is_detected(case, stream=stream, settings=settings)]
    assert len({text for _, _, text in cases}) == 1000
    assert len(flagged) <= 5, flagged


async def test_no_two_words_of_a_leak_have_gone_when_it_is_found() -> None:
    """A stream releases at most one word that is in the system prompt, too."""
    counts = []
    for prompt, text in leaks():
        detector = await ResponseDetector.create(personal(), Answers(), Extraction(system_prompt=prompt))
        _, released = await streamed(detector, text)
        counts += [text for _ in Leaks(prompt, words=2).find(released[-1], "")]
    assert counts == []


async def test_ordinary_answers_are_hardly_held_back() -> None:
    """The median first word is released after at most 16 characters, where the whole buffer has 160."""
    firsts, waiting = [], []
    for prompt, text in ordinary():
        detector = await ResponseDetector.create(personal(), Answers(), Extraction(system_prompt=prompt))
        _, released = await streamed(detector, text)
        firsts.append(next((number for number, went in enumerate(released) if went), len(released)) * SIZE)
        waiting += [min(number * SIZE, len(text)) - len(went) for number, went in enumerate(released)]
    assert statistics.median(firsts) <= 16
    assert statistics.mean(waiting) <= 20
