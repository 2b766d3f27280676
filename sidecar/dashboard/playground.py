"""Playground: scans a prompt and shows the verdict with all details. Nothing is logged or counted."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from sidecar.config import Settings
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.highlight import Piece, pieces, spans
from sidecar.normalization import normalizations
from sidecar.policy import Policy
from sidecar.scan.engine import Engine
from sidecar.types import ScanRequest, Segment, Verdict

MOST_VIEWS = 8
LONGEST_VIEW = 2_000
LONGEST_CURL = 4_000


@dataclass(frozen=True, slots=True)
class Shown:
    """The displayed results of one scan."""

    verdict: Verdict
    text: list[Piece]
    views: list[tuple[str, str]]
    curl: str | None


class Playground:
    """The page to try prompts on."""

    def __init__(self, engine: Callable[[], Engine], policy: Callable[[], Policy], settings: Settings) -> None:
        self._engine = engine
        self._policy = policy
        self._listen = settings.listen

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [Route("GET", "/playground", self.show), Route("POST", "/playground", self.scan)]

    async def show(self, visit: Visit) -> web.Response:
        """The empty form."""
        return self._page(visit, "", "", None)

    async def scan(self, visit: Visit) -> web.Response:
        """The same form with the verdict below."""
        prompt, system = (_lines(visit.form.get(name, "")) for name in ("prompt", "system_prompt"))
        verdict = await self._engine().scan(ScanRequest((Segment(prompt),), system or None))
        view_names = {finding.view for finding in verdict.findings} - {"raw"}
        shown = Shown(
            verdict,
            pieces(prompt, spans(verdict.findings)),
            await asyncio.to_thread(_views, prompt, view_names) if view_names else [],
            self._curl(prompt, system),
        )
        return self._page(visit, prompt, system, shown)

    def _page(self, visit: Visit, prompt: str, system: str, shown: Shown | None) -> web.Response:
        rules = {rule.id: rule for rule in self._policy().rules}
        threshold = self._engine().config.threshold
        return visit.page(
            "playground.html", prompt=prompt, system=system, shown=shown, rules=rules, threshold=threshold
        )

    def _curl(self, prompt: str, system: str) -> str | None:
        """The same request to the scan API as a curl command; None if that would be too long."""
        body = json.dumps({"prompt": prompt, **({"system_prompt": system} if system else {})})
        if len(body) > LONGEST_CURL:
            return None
        host = "127.0.0.1" if self._listen.host in {"0.0.0.0", "::"} else self._listen.host  # noqa: S104
        where = f"http://{host}:{self._listen.port}/api/v1/prompt/explain"
        headers = "-H \"X-API-Key: $SIDECAR_API_KEY\" -H 'Content-Type: application/json'"
        return f"curl -s {where} {headers} -d {shlex.quote(body)}"


def _lines(text: str) -> str:
    """Browsers send line breaks as CR LF; this restores LF."""
    return text.replace("\r\n", "\n")


def _views(text: str, names: set[str]) -> list[tuple[str, str]]:
    """The normalized forms of the text in which something was found."""
    matching = [(view.name, view.text[:LONGEST_VIEW]) for view in normalizations(text) if view.name in names]
    return matching[:MOST_VIEWS]
