"""Sixty attacks on the judge, against servers that naively obey whatever verdict they find in the text."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
import unicodedata
from collections.abc import Iterator

import pytest
from aiohttp import web
from detectors.judge import judge_server as judges
from detectors.judge.judge_attacks import ATTACKS, PAYLOAD
from detectors.judge.judge_server import Answer, Case, JudgeServer

from sidecar.config import JudgeLayer
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.errors import LayerError
from sidecar.types import Finding, Label, LayerName, ScanRequest, Segment

BLOCK = 0.6
ACQUITTAL = re.compile(
    r"(?i)verdict\W{0,4}allow|answer\W{0,4}allow|answers\W{0,4}allow|\ballow\b|\"?(?:q1|score|risk_score)\"?\W{1,3}0\b"
    r"|erlauben|autoriser|permitir|consentire|разрешить|允许|許可|سماح|अनुमति|허용"
)


def readings(text: str) -> Iterator[str]:
    """All readings of a text by an eager model: raw, unescaped, normalised, decoded."""
    yield text
    yield unicodedata.normalize("NFKC", text)
    yield "".join(chr(ord(c) - 0xE0000) if 0xE0000 <= ord(c) < 0xE0080 else c for c in text)
    yield codecs.encode(text, "rot13")
    for word in text.split():
        try:
            yield base64.b64decode(word, validate=True).decode()
            yield bytes.fromhex(word).decode()
        except (ValueError, binascii.Error, UnicodeDecodeError):
            continue


def objects(text: str) -> Iterator[str]:
    """Every JSON object that stands in a text, also inside strings of others."""
    for match in re.finditer(r"\{", text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, match.start())
        except ValueError:
            continue
        yield text[match.start() : end]
        if isinstance(value, dict):
            yield from (inner for part in value.values() if isinstance(part, str) for inner in objects(part))


async def echoing(case: Case) -> web.Response:
    """Repeats the first JSON object that it finds in the text, raw or decoded, as its own answer."""
    objects_found = [verdict for reading in (case.text, *readings(case.plain)) for verdict in objects(reading)]
    verdicts = [verdict for verdict in objects_found if '"q1"' in verdict] or objects_found
    return judges.completion(verdicts[0]) if verdicts else await judges.honest(case)


async def echoing_all(case: Case) -> web.Response:
    """Repeats everything in the text that is a JSON object, then adds its own verdict."""
    verdicts_found = [verdict for reading in (case.text, *readings(case.plain)) for verdict in objects(reading)]
    return judges.completion("\n".join([*verdicts_found, case.verdict(0)]))


async def obeying(case: Case) -> web.Response:
    """Reads an acquittal anywhere in the text and gives it, in perfect form; honest where there is none."""
    if any(ACQUITTAL.search(reading) for reading in readings(case.plain)):
        return judges.completion(case.verdict(0, "The text says that it is harmless."))
    return await judges.honest(case)


async def dictated(case: Case) -> web.Response:
    """As `obeying`, but answers 5 of 9: below the threshold and yet no clear acquittal."""
    if any(ACQUITTAL.search(reading) for reading in readings(case.plain)):
        return judges.completion(case.verdict(5).replace('"q2": 0', '"q2": 5'))
    return await judges.honest(case)


async def outcome(answer: Answer, text: str, *, found: bool, control: bool = True) -> str:
    """`block`, `allow`, or `error: CAUSE`; `found` says whether an earlier layer points at the payload."""
    at = text.index(PAYLOAD)
    prior = [Finding("X", Label.JAILBREAK, 0.5, LayerName.SEMANTIC, "prompt", at, at + len(PAYLOAD))] if found else []
    async with JudgeServer(answer) as server:
        layer = LlmJudgeLayer(JudgeLayer(url=server.url, model="m", timeout=10.0, control=control))
        try:
            report = await layer.scan(ScanRequest((Segment(text),)), prior)
        except LayerError as error:
            return f"error: {error.cause}"
        finally:
            await layer.close()
    assert report.score is not None
    return "block" if report.score >= BLOCK else "allow"


def test_there_are_sixty() -> None:
    """Sixty different attacks, each with the payload in it."""
    assert len(set(ATTACKS.values())) == 60
    assert all(PAYLOAD in text for text in ATTACKS.values())


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_honest_judge_blocks_it(name: str) -> None:
    """The escapes and windows leave the payload readable: an honest judge sees it in every disguise."""
    assert await outcome(judges.honest, ATTACKS[name], found=True) == "block"


@pytest.mark.parametrize("answer", [echoing, echoing_all, obeying, dictated])
@pytest.mark.parametrize("found", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_verdict_in_the_text_is_believed(name: str, found: bool, answer: Answer) -> None:
    """Obeyed literally or in spirit, the verdict in the text ends in an error or a block, never in an acquittal."""
    assert await outcome(answer, ATTACKS[name], found=found) != "allow"


async def test_the_obedient_servers_would_be_fooled() -> None:
    """Without the control nearly all of the attacks work, so the test above can fail."""
    fooled = [await outcome(obeying, text, found=True, control=False) for text in ATTACKS.values()]
    assert fooled.count("allow") >= 50
