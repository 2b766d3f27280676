"""Every way in which an OpenAI-compatible judge can behave, and what a scan must make of it.

Each kind is an answer of `judge_server` and the expected outcome: `VERDICT` if the judge's opinion counts, else the
cause of the layer's failure. A judge that is not understood is never an acquittal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from detectors.judge import judge_server as judges
from detectors.judge.judge_server import Answer, Case

VERDICT = "verdict"


@dataclass(frozen=True)
class Kind:
    """A judge's behaviour, what a scan must make of it, and the layer's deadline."""

    answer: Answer
    outcome: str = VERDICT
    timeout: str = "20s"


def written(form: Callable[[str], Any], **choice: Any) -> Answer:
    """The honest verdict, in another form."""

    async def answer(case: Case) -> web.Response:
        return judges.completion(form(_honest(case)), **choice)

    return answer


def graded(*pieces: tuple[str, str]) -> Answer:
    """A verdict without any sign of an attack, with these replacements in its JSON."""

    async def answer(case: Case) -> web.Response:
        content = case.verdict(0)
        for old, new in pieces:
            assert old in content
            content = content.replace(old, new, 1)
        return judges.completion(content)

    return answer


def envelope(change: Callable[[dict[str, Any]], Any]) -> Answer:
    """An acquittal whose envelope is changed, to another value or to bytes."""

    async def answer(case: Case) -> web.Response:
        value = {"choices": [{"index": 0, "message": {"content": case.verdict(0)}, "finish_reason": "stop"}]}
        changed = change(value)
        return web.Response(
            body=changed if isinstance(changed, bytes) else json.dumps(changed).encode(),
            content_type="application/json",
        )

    return answer


def refusing(*fields: str, status: int = 400) -> Answer:
    """Refuses a body with one of these fields; else honest."""

    async def answer(case: Case) -> web.StreamResponse:
        if set(fields) & set(case.body):
            return web.json_response({"error": {"message": "unsupported"}}, status=status)
        return await judges.honest(case)

    return answer


def bytes_of(raw: Callable[[bytes], bytes]) -> Answer:
    """Raw bytes on the wire, made from the JSON of an acquittal; then the connection is closed."""

    async def answer(case: Case) -> web.StreamResponse:
        body = json.dumps({"choices": [{"message": {"content": case.verdict(0)}, "finish_reason": "stop"}]}).encode()
        transport = case.request.transport
        assert transport is not None
        transport.write(raw(body))
        await asyncio.sleep(0.05)
        transport.close()
        return web.Response()

    return answer


def _honest(case: Case) -> str:
    return case.verdict(9 if judges.ATTACK.search(case.plain) else 0)


def _head(length: int, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n".encode()


async def thinker(case: Case) -> web.Response:
    """A reasoning model: 400 tokens are too few for its thoughts."""
    if case.body.get("max_completion_tokens", 0) < 1000:
        return judges.completion("", finish_reason="length", message={"reasoning_content": "Hm, let me see."})
    return judges.completion(_honest(case), message={"reasoning_content": "It may be harmless."})


async def events(case: Case) -> web.Response:
    """A stream of events, which nobody asked for."""
    delta = {"choices": [{"index": 0, "delta": {"content": case.verdict(0)}}]}
    return web.Response(text=f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n", content_type="text/event-stream")


async def redirect(case: Case) -> web.StreamResponse:
    """Sends the client elsewhere."""
    return web.Response(status=307, headers={"Location": str(case.request.url.with_query("again"))})


def _choices(number: int) -> Answer:
    return envelope(lambda value: {"choices": value["choices"] * number})


KINDS: dict[str, Kind] = {
    "honest": Kind(judges.honest),
    "content in parts": Kind(
        written(lambda text: [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}])
    ),
    "digits as strings": Kind(written(lambda text: text.replace(": 0", ': "0"').replace(": 9", ': "9"'))),
    "digits with a fraction of zero": Kind(written(lambda text: text.replace(": 0", ": 0.0").replace(": 9", ": 9.0"))),
    "fence": Kind(written(lambda text: f"```json\n{text}\n```")),
    "fence in one line": Kind(written(lambda text: f"```{text}```")),
    "thought": Kind(written(lambda text: f"<think>Is it {{harmless}}?</think>\n{text}")),
    "thought without its beginning": Kind(written(lambda text: f"It is harmless: q1 is 0.</think>{text}")),
    "reasoning beside the content": Kind(written(str, message={"reasoning_content": "It is harmless."})),
    "thinks longer than it may answer": Kind(thinker),
    "no finish_reason": Kind(written(str, finish_reason=None)),
    "knows no response_format": Kind(refusing("response_format")),
    "knows no response_format, 404": Kind(refusing("response_format", status=404)),
    "knows no logprobs": Kind(refusing("logprobs", status=422)),
    "knows no max_tokens": Kind(refusing("max_tokens")),
    "503 once": Kind(judges.failing(503, times=1)),
    "acquits everybody": Kind(graded(), "swayed"),
    "401": Kind(judges.failing(401), "unavailable"),
    "402": Kind(judges.failing(402), "unavailable"),
    "404": Kind(judges.failing(404), "unavailable"),
    "400 to everything": Kind(judges.failing(400), "unavailable"),
    "429 for a minute": Kind(judges.failing(429, {"Retry-After": "60"}), "unavailable"),
    "500": Kind(judges.failing(500), "unavailable"),
    "redirect": Kind(redirect, "unavailable"),
    "silent": Kind(judges.slow(60), "deadline", timeout="500ms"),
    "drip": Kind(judges.drip, "deadline", timeout="500ms"),
    "endless": Kind(judges.flood, "garbage"),
    "closes without an answer": Kind(judges.reset, "unavailable"),
    "half a body": Kind(bytes_of(lambda body: _head(len(body)) + body[: len(body) // 2]), "unavailable"),
    "half a JSON": Kind(envelope(lambda value: json.dumps(value).encode()[:-9]), "garbage"),
    "no HTTP": Kind(bytes_of(lambda body: body), "unavailable"),
    "huge": Kind(envelope(lambda value: value | {"padding": "x" * (2 << 20)}), "garbage"),
    "stream of events": Kind(events, "garbage"),
    "page of HTML": Kind(judges.raw(b"<html>Please log in.</html>", "text/html"), "garbage"),
    "empty body": Kind(judges.raw(b""), "garbage"),
    "204": Kind(bytes_of(lambda _: b"HTTP/1.1 204 No Content\r\n\r\n"), "unavailable"),
    "compressed unasked": Kind(judges.raw(b"\x1f\x8b\x08\x00"), "garbage"),
    "an error with status 200": Kind(judges.raw(b'{"error": {"message": "no model is loaded"}}'), "garbage"),
    "JSON list": Kind(envelope(lambda value: [value]), "garbage"),
    "no choices": Kind(_choices(0), "garbage"),
    "two choices": Kind(_choices(2), "garbage"),
    "no content": Kind(judges.saying(None), "garbage"),
    "tool call": Kind(written(str, message={"tool_calls": [{"id": "c", "type": "function"}]}), "garbage"),
    "parts that are no text": Kind(written(lambda text: [{"type": "image_url", "text": text}]), "garbage"),
    "refusal": Kind(judges.saying(None, message={"refusal": "I cannot help."}), "refusal"),
    "content filter": Kind(judges.saying("", finish_reason="content_filter"), "refusal"),
    "always cut": Kind(judges.saying("", finish_reason="length"), "garbage"),
    "prose": Kind(judges.saying("I think that this is fine."), "garbage"),
    "prose around the verdict": Kind(written(lambda text: f"Sure! {text} I hope that helps."), "garbage"),
    "two verdicts": Kind(written(lambda text: text + text), "garbage"),
    "verdict cut": Kind(written(lambda text: text[:-9]), "garbage"),
    "verdict of another call": Kind(graded(('"id": "', '"id": "x')), "garbage"),
    "no grade": Kind(graded(('"q1": 0, ', "")), "garbage"),
    "one grade twice": Kind(graded(('"q1": 0', '"q1": 9, "q1": 0')), "garbage"),
    "NaN": Kind(graded(('"q1": 0', '"q1": NaN')), "garbage"),
    "too high": Kind(graded(('"q1": 0', '"q1": 10')), "garbage"),
    "negative": Kind(graded(('"q1": 0', '"q1": -1')), "garbage"),
    "fraction": Kind(graded(('"q1": 0', '"q1": 0.5')), "garbage"),
    "boolean": Kind(graded(('"q1": 0', '"q1": false')), "garbage"),
    "null": Kind(graded(('"q1": 0', '"q1": null')), "garbage"),
    "a word of its own": Kind(graded(('"reasoning"', '"action": "allow", "reasoning"')), "garbage"),
}
