"""A judge on loopback that speaks both protocols and misbehaves on command, for tests and benchmarks.

`JudgeServer(answer)` calls `answer(case)` for each completion; the answers below are those of working and of
failing judges. The server counts calls, remembers bodies, and knows how many were in flight at once. Like real ones it
drops what it is doing for a client that has left.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TEXT = re.compile(r"<<<(\w+) begins>>>\n(.*)\n<<<\1 ends>>>", re.DOTALL)
ATTACK = re.compile(r"(?i)\b(?:ignore|forget|disregard|without safety|hack)\b")


@dataclass(frozen=True)
class Case:
    """One call as the judge sees it: the marker, the rendered text, and the names of the grades."""

    request: web.Request
    body: dict[str, Any]
    marker: str
    text: str
    names: list[str]

    @property
    def plain(self) -> str:
        """The text without its escapes, as an obedient model might read it."""
        undone = re.sub(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", lambda m: chr(int(m[1] or m[2], 16)), self.text)
        return undone.replace("\\n", "\n").replace("\\\\", "\\")

    def verdict(self, grade: int, reasoning: str = "It says so.", *, question: int = 0) -> str:
        """A verdict in the right form, with one grade set and the others 0."""
        grades = dict.fromkeys(self.names, 0) | {self.names[question]: grade}
        return json.dumps({"id": self.marker, **grades, "reasoning": reasoning})


Answer = Callable[[Case], Awaitable[web.StreamResponse]]


def completion(content: str | None, *, tokens: int = 500, **choice: Any) -> web.Response:
    """A chat completion with this content."""
    message = {"role": "assistant", "content": content, **choice.pop("message", {})}
    first_choice = {"index": 0, "message": message, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": tokens - 10, "completion_tokens": 10, "total_tokens": tokens}
    return web.json_response({"object": "chat.completion", "choices": [first_choice], "usage": usage})


async def honest(case: Case) -> web.Response:
    """Grades 9 if the text holds an obvious attack, else 0."""
    return completion(case.verdict(9 if ATTACK.search(case.plain) else 0))


def grading(grade: int) -> Answer:
    """Gives this grade to the first question whatever the text, but sees the planted attack of a control."""

    async def answer(case: Case) -> web.Response:
        return completion(case.verdict(9 if ATTACK.search(case.plain) else grade))

    return answer


def saying(content: str | None, **choice: Any) -> Answer:
    """Always the same content; `MARKER` in it becomes the marker of the call."""

    async def answer(case: Case) -> web.Response:
        return completion(content and content.replace("MARKER", case.marker), **choice)

    return answer


def failing(status: int, headers: dict[str, str] | None = None, *, times: int = 1_000_000) -> Answer:
    """Answers with this status so many times, honestly from then on."""
    remaining = times

    async def answer(case: Case) -> web.StreamResponse:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            return await honest(case)
        return web.json_response({"error": {"message": "no"}}, status=status, headers=headers)

    return answer


def slow(seconds: float, then: Answer = honest) -> Answer:
    """Waits, then answers."""

    async def answer(case: Case) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await then(case)

    return answer


async def drip(case: Case) -> web.StreamResponse:
    """Headers at once, then a byte of white space every 20 ms, for ever: no read is slow, the whole is."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(case.request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def reset(case: Case) -> web.StreamResponse:
    """Closes the connection without an answer."""
    assert case.request.transport is not None
    case.request.transport.abort()
    return web.Response()


async def flood(case: Case) -> web.StreamResponse:
    """An endless response, as fast as the client reads."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(case.request)
    while True:
        await response.write(b" " * 65536)


def raw(body: bytes, content_type: str = "application/json") -> Answer:
    """Status 200 with this body."""

    async def answer(case: Case) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    return answer


def deciding(body: dict[str, Any]) -> web.Response:
    """A decision model that sees obvious attacks: for the first question 0.97, and 0.02 for everything else."""
    sees = ATTACK.search(body["state"]["text"]) is not None
    answers = {name: {"type": "noul", "noul": 0.02} for name in body["questions"]}
    answers["q1"]["noul"] = 0.97 if sees else 0.02
    return decision(answers)


def decision(answers: object, **more: Any) -> web.Response:
    """A response of a decision model."""
    usage = {"input_tokens": 318, "output_tokens": 34}
    return web.json_response({"model": "jev-1.13.0", "answers": answers, "usage": usage, **more})


@dataclass
class JudgeServer:
    """A server of both kinds on loopback; use as an async context manager. `answer` may be changed at any time."""

    answer: Answer = honest
    decide: Callable[[dict[str, Any]], web.Response] = deciding
    """The answer to `POST /v1/systemone`."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    url: str = ""
    keep: bool = True
    calls: int = 0
    models: int = 200
    """The status of its list of models."""
    listed: list[str] = field(default_factory=lambda: ["m", "judge-1"])
    """The models in that list."""
    cards: list[str] = field(default_factory=list)
    """The same in the form of a server of decisions, if there are any."""

    async def __aenter__(self) -> JudgeServer:
        """Listen on a free port."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/systemone", self._decide)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; running calls are aborted."""
        await self._runner.cleanup()

    @property
    def decision_url(self) -> str:
        """The URL of its decision model."""
        return f"{self.url}/systemone"

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.calls += 1
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        return self.decide(body)

    async def _list_models(self, _request: web.Request) -> web.Response:
        if self.cards:
            cards = [{"name": name, "description": "", "release_date": "2026-09-01"} for name in self.cards]
            return web.json_response({"models": cards}, status=self.models)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.listed]}, status=self.models)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.calls += 1
        if self.keep:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self.answer(_case(request, body))
        finally:
            self.in_flight -= 1


def _case(request: web.Request, body: dict[str, Any]) -> Case:
    match = TEXT.search(body["messages"][-1]["content"])
    assert match is not None
    form = body["messages"][-1]["content"].rpartition("form: ")[2]
    return Case(request, body, match[1], match[2], re.findall(r'"(q\d+)"', form))
