"""Tools of different MCP servers whose names read the same: a model that has both may call the wrong one."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.extraction.field_table import fold
from sidecar.storage import Pin


def shadows(pins: Iterable[Pin]) -> dict[tuple[str, str], list[str]]:
    """The other servers with a tool of a name that reads the same, by server and tool."""
    by_name: dict[str, list[Pin]] = {}
    for pin in pins:
        if pin.latest is not None:
            by_name.setdefault(fold(pin.tool), []).append(pin)
    return {
        (pin.server, pin.tool): others
        for same in by_name.values()
        for pin in same
        if (others := sorted({one.server for one in same} - {pin.server}))
    }
