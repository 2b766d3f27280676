"""Pins the tools that a server lists, and finds what changes later: a tool that was harmless when it was approved.

The first complete list of a server is pinned, page by page. A definition is everything that the server says about a
tool but `_meta`, so a new description, schema or annotation is drift; so is a tool that comes later or is gone. A name
that another server's tool has, too, is shadowed: a model that reads both may call the wrong one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sidecar.extraction.field_table import fold
from sidecar.mcp.messages import shorten
from sidecar.observability.metrics import MCP_DRIFT
from sidecar.storage import Pin, Pins
from sidecar.util import json, logs

SHADOWED = "shadowed"
MAX_CURSORS = 1_000
MAX_TOOLS = 1_000
"""Pins of one server; a tool beyond is not stored, and counts as added."""
UNKNOWN_PAGE = ""
"""In place of the cursor of a list that answers no known request: any page, perhaps the only one."""
MAX_SHOWN = 100
"""Characters of a name in logs and messages."""
_log = logs.get("mcp")


@dataclass(frozen=True, slots=True)
class Drift:
    """A tool that is not as it was pinned: `added`, `changed`, `removed`; or `shadowed` by that of `other`."""

    tool: str
    kind: str
    other: str = ""

    @property
    def is_dangerous(self) -> bool:
        """Whether a model could be misled by it: a tool that is gone is not called."""
        return self.kind in {"added", "changed"}


class Catalogue:
    """The pinned tools of all servers. Every method may raise `StoreError`."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._first_pages: dict[tuple[str, str], None] = {}

    async def observe(self, server: str, result: Mapping[str, Any], cursor: str | None = None) -> list[Drift]:
        """Compare a page of the tools of `server` with its pins, or pin it if it is the first list; returns the drift.

        `cursor`: that of the request. Drift is logged and counted when it is first seen.
        """
        tools, now = await asyncio.to_thread(_digests, result), datetime.now(UTC)
        stored_pins = await self._pins.query()
        pins = {pin.tool: pin for pin in stored_pins if pin.server == server}
        is_first, following = self._continues(server, cursor) or not pins, result.get("nextCursor")
        if is_first:
            self._note_page(server, following)
        is_complete = not is_first and cursor is None and following is None
        latest = dict(tools) | ({tool: None for tool in pins if tool not in tools} if is_complete else {})
        new = _new_pins(server, {tool: tools[tool] for tool in tools if tool not in pins}, now, is_first=is_first)
        stored = await self._store(server, new, MAX_TOOLS - len(pins))
        changed = {tool: value for tool, value in latest.items() if tool in pins and pins[tool].latest != value}
        await self._pins.see(server, changed, now)
        seen = {tool: replace(pin, latest=latest.get(tool, pin.latest)) for tool, pin in (pins | stored).items()}
        drift = _shadowed(tools, [pin for pin in stored_pins if pin.server != server])
        drift += [Drift(tool, kind) for tool in latest if (kind := seen[tool].drift if tool in seen else "added")]
        self._report(server, [change for change in drift if change.tool in changed or change.tool in stored])
        return drift

    async def drift_of(self, server: str, tool: str) -> Drift | None:
        """The drift of one tool, as of the latest list."""
        for pin in await self._pins.query(server, tool):
            return Drift(tool, pin.drift) if pin.drift else None
        return Drift(tool, "added") if len(await self._pins.query(server)) >= MAX_TOOLS else None

    async def _store(self, server: str, pins: list[Pin], room: int) -> dict[str, Pin]:
        """Store new pins as far as there is room; returns those."""
        if len(pins) > room:
            _log.warning("mcp_tools_not_pinned", server=server, number=len(pins) - max(0, room), limit=MAX_TOOLS)
        stored = pins[: max(0, room)]
        await self._pins.add(stored)
        return {pin.tool: pin for pin in stored}

    def _continues(self, server: str, cursor: str | None) -> bool:
        """Whether a page follows one of the first list: once, or a later list could use the same cursor."""
        if cursor is None or (server, cursor) not in self._first_pages:
            return False
        del self._first_pages[server, cursor]
        return True

    def _note_page(self, server: str, following: object) -> None:
        if isinstance(following, str) and following != UNKNOWN_PAGE:
            self._first_pages[server, shorten(following)] = None
        while len(self._first_pages) > MAX_CURSORS:
            del self._first_pages[next(iter(self._first_pages))]

    def _report(self, server: str, drift: Iterable[Drift]) -> None:
        for change in drift:
            MCP_DRIFT.labels(change.kind).inc()
            tool, other = change.tool[:MAX_SHOWN], change.other or None
            _log.warning("mcp_tool_drifted", server=server, tool=tool, kind=change.kind, other=other)


def digest(tool: Mapping[str, Any]) -> str:
    """The digest of a definition, without `_meta` that varies by response, whatever the order of its members."""
    fields = {name: value for name, value in tool.items() if name != "_meta"}
    return hashlib.sha256(json.dumps(fields, json.LARGE, option=json.SORTED)).hexdigest()


def _digests(result: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each tool by its name; of one that is listed twice, of all its definitions."""
    found: dict[str, set[str]] = {}
    for tool in _tools(result):
        if (name := tool.get("name")) and isinstance(name, str):
            found.setdefault(shorten(name), set()).add(digest(tool))
    return {name: values.pop() if len(values) == 1 else _joined(values) for name, values in found.items()}


def _new_pins(server: str, tools: Mapping[str, str], at: datetime, *, is_first: bool) -> list[Pin]:
    """The pins of tools of the first list, or of tools that were added later."""
    if is_first:
        return [Pin(server, tool, value, value, at) for tool, value in tools.items()]
    return [Pin(server, tool, None, value, at, at) for tool, value in tools.items()]


def _joined(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def _tools(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = result.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _shadowed(tools: Iterable[str], pins: Iterable[Pin]) -> list[Drift]:
    """The tools whose names are those of pins, which are of other servers."""
    owners = {fold(pin.tool): pin.server for pin in pins if pin.latest is not None}
    return [Drift(tool, SHADOWED, owners[fold(tool)]) for tool in tools if fold(tool) in owners]
