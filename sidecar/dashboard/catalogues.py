"""Catalogues: the pinned tools of MCP servers, what changed since, and accepting or forgetting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.refresh import refreshed
from sidecar.extraction.shadowed_tools import shadows
from sidecar.storage import MAX_NAME, Pin, state_of

PAGE = 100
MAX_OFFSET = 100_000
STATE_CHARS = 64
LISTINGS = ("all", "drift")


@dataclass(frozen=True, slots=True)
class Server:
    """A server with its numbers of tools, of changed ones, and of names that another server uses, too.

    `state`: of its definitions, as `state_of` has it.
    """

    name: str
    tools: int
    drifted: int
    shadowed: int
    state: str


class Catalogues:
    """The page of pinned tools."""

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [
            Route("GET", "/mcp", self.show),
            Route("POST", "/mcp/accept", self.accept),
            Route("POST", "/mcp/forget", self.forget),
        ]

    async def show(self, visit: Visit) -> web.Response:
        """All servers, and their tools, or only what needs a look, page by page."""
        form = visit.query
        server, only = form.text("server", MAX_NAME), form.choice("show", LISTINGS)
        offset = form.whole("offset", 0, MAX_OFFSET) or 0
        pins = await visit.store.pins.query()
        namesakes = shadows(pins)
        listed = [pin for pin in pins if _is_listed(pin, server, only == "drift", namesakes)]
        selection = {"server": server, "show": only or ""}
        answer = visit.page(
            "mcp.html",
            servers=servers(pins, namesakes),
            pins=listed[offset : offset + PAGE],
            others=namesakes,
            state_of=state_of,
            total=len(listed),
            first=offset + 1,
            chosen=selection,
            later=_link(selection, offset + PAGE) if offset + PAGE < len(listed) else None,
            earlier=_link(selection, max(0, offset - PAGE)) if offset else None,
            done=form.text("done"),
        )
        return refreshed(answer, form)

    async def accept(self, visit: Visit) -> web.Response:
        """Pin the definitions of a server, or of one of its tools, if they are still those of the page."""
        server, tool = _server(visit), visit.form.text("tool", MAX_NAME) or None
        seen = visit.form.text("seen", STATE_CHARS)
        number = await visit.store.pins.accept(server, tool, datetime.now(UTC), seen=seen)
        if not number:
            raise refused(409, "Nothing was accepted: what the server says has changed since, or was accepted already.")
        await visit.note("mcp_pins_accepted", server, f"{tool or 'all tools'}: {number} changed")
        return to("/mcp", "accepted")

    async def forget(self, visit: Visit) -> web.Response:
        """Delete the pins of a server, so that its next list is pinned."""
        server = _server(visit)
        number = await visit.store.pins.forget(server)
        if not number:
            raise refused(404, "There is no such server.")
        await visit.note("mcp_pins_forgotten", server, f"{number} tools")
        return to("/mcp", "forgotten")


def servers(pins: Sequence[Pin], namesakes: Mapping[tuple[str, str], Sequence[str]]) -> list[Server]:
    """The servers, those with changes first."""
    by_name: dict[str, list[Pin]] = {}
    for pin in pins:
        by_name.setdefault(pin.server, []).append(pin)
    counts = [
        Server(
            name,
            tools=sum(pin.latest is not None for pin in server_pins),
            drifted=sum(pin.drift is not None for pin in server_pins),
            shadowed=sum((pin.server, pin.tool) in namesakes for pin in server_pins),
            state=state_of(server_pins),
        )
        for name, server_pins in by_name.items()
    ]
    return sorted(counts, key=lambda server: (-server.drifted, server.name))


def _is_listed(pin: Pin, server: str, drift: bool, namesakes: Mapping[tuple[str, str], Sequence[str]]) -> bool:
    if server and pin.server != server:
        return False
    return not drift or pin.drift is not None or (pin.server, pin.tool) in namesakes


def _server(visit: Visit) -> str:
    name = visit.form.text("server", MAX_NAME)
    if not name:
        raise refused(400, "Name a server.", param="server")
    return name


def _link(selection: Mapping[str, str], offset: int) -> str:
    return urlencode({name: value for name, value in selection.items() if value} | {"offset": str(offset)})
