"""Twin of benchmarks/leaks.py: the promise on its hundred leaks and five hundred ordinary answers, in process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from door import personal

from benchmarks.leak_cases import leaks, ordinary
from sidecar.bodies.extraction import Extraction
from sidecar.config import Answers
from sidecar.replies.events import read
from sidecar.replies.window import Window
from sidecar.web.findings import Finder

SIZE = 12


class Found(Exception):
    """The look has found something."""


async def found(prompt: str, text: str, *, stream: bool) -> bool:
    """Whether an answer is flagged, whole or in pieces."""
    finder = await Finder.made(personal(), Answers(), Extraction(system_prompt=prompt))
    if not stream:
        return bool(await finder.findings([(text, "p")]))

    async def look(seen: str, path: str) -> None:
        if await finder.findings([(seen, path)]):
            raise Found

    window = Window(look, Answers().hold)
    try:
        for start in range(0, len(text), SIZE):
            await window.add(read(_event(text[start : start + SIZE])))
        await window.finish()
    except Found:
        return True
    return False


def _event(text: str) -> bytes:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@pytest.mark.parametrize("stream", [False, True])
async def test_leaks_are_caught(stream: bool) -> None:
    """At least 99 of 100 answers with eight or more words in a row, whole and streamed."""
    cases = leaks()
    missed = [text for prompt, text in cases if not await found(prompt, text, stream=stream)]
    assert len(set(cases)) == 100
    assert len(missed) <= 1, missed


@pytest.mark.parametrize("stream", [False, True])
async def test_ordinary_answers_pass(stream: bool) -> None:
    """None of 500 is flagged, those among them with seven words in a row included."""
    cases = ordinary()
    flagged = [text for prompt, text in cases if await found(prompt, text, stream=stream)]
    assert len(cases) == 500
    assert flagged == []
