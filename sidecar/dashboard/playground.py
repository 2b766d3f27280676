"""Playground: scans texts, as a key or without one, and shows all details. Nothing is logged or counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from sidecar.config import Settings
from sidecar.dashboard import playground_inputs as inputs
from sidecar.dashboard.forms import Checks, Form
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.dashboard.playground_inputs import EXAMPLES, KINDS
from sidecar.dashboard.playground_sides import POLICIES, Pair, Side, read_sides, rules_of
from sidecar.dashboard.request_view import Part, parts
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.decision_log.outline import outline
from sidecar.decision_log.rows import finding_rows
from sidecar.errors import RequestError
from sidecar.extraction.tool_names import tool_names
from sidecar.normalization import normalizations
from sidecar.policy import Policy
from sidecar.scan.engine import Engine
from sidecar.scan.service import ScanContext, ScanService
from sidecar.types import ScanRequest, Verdict

MOST_VIEWS = 8
LONGEST_VIEW = 2_000
LONGEST_CURL = 4_000


@dataclass(frozen=True, slots=True)
class ScanResults:
    """The results of one scan: of a prompt its marked text, of a conversation its turns."""

    verdict: Verdict
    text: list[Piece]
    turns: list[Part]
    views: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Entered:
    """What is in the form."""

    kind: str = "prompt"
    prompt: str = ""
    system: str = ""
    form: Form = field(default_factory=Form)
    """The fields of both sides."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one side, the words by which a table names each, and the body of a conversation."""

    texts: Sequence[str]
    requests: Sequence[ScanRequest]
    body: dict[str, Any] = field(default_factory=dict)


class Playground:
    """The page to try texts on."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        policy: Callable[[], Policy],
        status: Callable[[], ServiceStatus],
        profiles: Callable[[], Mapping[str, Engine]],
    ) -> None:
        """`profiles`: their engines by name."""
        self._engine, self._policy, self._status, self._profiles = engine, policy, status, profiles

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [Route("GET", "/playground", self.show), Route("POST", "/playground", self.scan)]

    async def show(self, visit: Visit) -> web.Response:
        """The form, empty or with an example."""
        number = visit.query.whole("example", 0, len(EXAMPLES) - 1)
        if number is None:
            return await self._page(visit, Entered())
        example = EXAMPLES[number]
        return await self._page(visit, Entered(example.kind, example.text, example.system))

    async def scan(self, visit: Visit) -> web.Response:
        """The same form with the results below, or with what is wrong with it."""
        entered = Entered(
            kind=visit.form.get("kind", ""),
            prompt=_lines(visit.form.get("prompt", "")),
            system=_lines(visit.form.get("system_prompt", "")),
            form=visit.form,
        )
        try:
            kind, sides = await self._read(visit, entered)
            requests = [await self._requests(kind, entered, side) for side in sides]
            verdicts = [
                [await self._scan(request, side) for request in of_side.requests]
                for of_side, side in zip(requests, sides, strict=True)
            ]
            results = (
                []
                if kind == "batch"
                else [
                    await _results(of_side.requests[0], judged[0], entered, of_side.body)
                    for of_side, judged in zip(requests, verdicts, strict=True)
                ]
            )
        except RequestError as error:
            return await self._page(visit, entered, error=error)
        rows = list(zip(requests[0].texts, verdicts[0], strict=True))
        compared = [Pair(*row, verdict) for row, verdict in zip(rows, verdicts[1], strict=True)] if verdicts[1:] else []
        listed = rows if kind == "batch" and not compared else ()
        return await self._page(visit, entered, sides, results=results, rows=listed, compared=compared)

    async def _read(self, visit: Visit, entered: Entered) -> tuple[str, list[Side]]:
        """What it is, and the sides to scan it on. Raises `FormError` with all fields that are wrong."""
        checks = Checks()
        kind = checks.read(lambda: Form(kind=entered.kind).choice("kind", KINDS)) or "prompt"
        sides = await read_sides(visit.form, visit.key, checks)
        for side in sides:
            checks.read(lambda side=side: side.engine(self._engine(), self._profiles()))  # type: ignore[misc]
        await asyncio.to_thread(checks.read, lambda: inputs.parsed(kind, entered.prompt))
        checks.done()
        return kind, sides

    async def _requests(self, kind: str, entered: Entered, side: Side) -> Requests:
        """The requests to scan on a side. Raises `RequestError`."""
        if kind != "conversation":
            texts = inputs.batch(entered.prompt) if kind == "batch" else [entered.prompt]
            return Requests(texts, [inputs.prompt_request(text, entered.system) for text in texts])
        body = await asyncio.to_thread(inputs.conversation, entered.prompt)
        request = await asyncio.to_thread(inputs.chat_request, self._settings(side), body, entered.system)
        return Requests([inputs.conversation_words(body)], [request], body)

    async def _scan(self, request: ScanRequest, side: Side) -> Verdict:
        """The verdict of one side, without a record."""
        service = ScanService(side.engine(self._engine(), self._profiles()), self._settings(side))
        return await service.scan(request, ScanContext("", "playground", "", side.caller))

    def _settings(self, side: Side) -> Settings:
        """The settings in force, with the terms of the profile of a side."""
        return self._status().settings.of_profile(side.profile)

    async def _page(
        self,
        visit: Visit,
        entered: Entered,
        sides: Sequence[Side] = (Side(),),
        *,
        results: Sequence[ScanResults] = (),
        rows: Sequence[tuple[str, Verdict]] = (),
        compared: Sequence[Pair] = (),
        error: RequestError | None = None,
    ) -> web.Response:
        settings, key = self._settings(sides[0]), sides[0].key
        return visit.page(
            "playground.html",
            error.status if error else 200,
            entered=entered,
            kinds=KINDS,
            examples=EXAMPLES,
            keys=await visit.keys(),
            key=key,
            mode=(key and key.mode) or settings.mode,
            pii=settings.pii,
            shown=results,
            rows=rows,
            error=error,
            rules={rule.id: rule for rule in self._policy().rules},
            sides=sides,
            policies=POLICIES if self._engine().shadow else None,
            thresholds=[side.blocks_from(self._settings(side).scan.threshold) for side in sides],
            compared=compared,
            rules_of=rules_of,
            curl=self._curl(entered) if results or rows or compared else None,
        )

    def _curl(self, entered: Entered) -> str | None:
        """The same request to the scan API as a curl command; None if that would be too long."""
        system = {"system_prompt": entered.system} if entered.system else {}
        route, body = "prompt/explain", json.dumps({"prompt": entered.prompt, **system})
        if entered.kind == "batch":
            route = "prompt/batch"
            body = json.dumps([{"prompt": text, **system} for text in inputs.batch(entered.prompt)])
        elif entered.kind == "conversation":
            route, body = "chat/scan", json.dumps(_chat(inputs.conversation(entered.prompt)) | system)
        if len(body) > LONGEST_CURL:
            return None
        return self._status().curl(route, body)


async def _results(request: ScanRequest, verdict: Verdict, entered: Entered, body: dict[str, Any]) -> ScanResults:
    """The verdict with the text, or the turns of a conversation (`body`), and what was found in them."""
    view_names = {finding.view for finding in verdict.findings} - {"raw"}
    text = entered.prompt
    return ScanResults(
        verdict,
        [] if body else pieces(text, spans(verdict.findings)),
        await asyncio.to_thread(_turns, request, verdict, body) if body else [],
        await asyncio.to_thread(_views, text, view_names) if view_names and not body else [],
    )


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    """What `chat/scan` reads of a request; the text of Anthropic's `system` becomes the system prompt."""
    chat = {name: body[name] for name in ("messages", "tools", "model") if name in body}
    return chat | ({"system_prompt": body["system"]} if isinstance(body.get("system"), str) else {})


def _turns(request: ScanRequest, verdict: Verdict, body: dict[str, Any]) -> list[Part]:
    """The texts of a conversation with their findings."""
    segments = [segment for segment in request.segments if not segment.joined]
    texts = [segment.text for segment in segments]
    listed = outline(segments, verdict, request.tools or tool_names(body), texts)
    return parts(listed, finding_rows(verdict.findings), "\n".join(texts))


def _lines(text: str) -> str:
    """Browsers send line breaks as CR LF; this restores LF."""
    return text.replace("\r\n", "\n")


def _views(text: str, names: set[str]) -> list[tuple[str, str]]:
    """The normalized forms of the text in which something was found."""
    matching = [(view.name, view.text[:LONGEST_VIEW]) for view in normalizations(text) if view.name in names]
    return matching[:MOST_VIEWS]
