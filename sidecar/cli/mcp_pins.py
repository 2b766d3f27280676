"""The pinned tools of MCP servers as values and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sidecar.cli import output
from sidecar.cli.terminal import plain
from sidecar.extraction.shadowed_tools import shadows
from sidecar.storage import Pin

MAX_SHOWN = 60


def pin_values(pins: Sequence[Pin]) -> list[dict[str, Any]]:
    """A value for each tool; `shadows`: the other servers with a tool of that name."""
    others = shadows(pins)
    return [
        {
            "server": pin.server,
            "tool": pin.tool,
            "digest": pin.digest,
            "latest": pin.latest,
            "drift": pin.drift,
            "pinned_at": pin.pinned_at.isoformat(),
            "changed_at": pin.changed_at.isoformat() if pin.changed_at else None,
            "shadows": others.get((pin.server, pin.tool), []),
        }
        for pin in pins
    ]


def show_pins(values: Sequence[dict[str, Any]]) -> None:
    """A table; names come from servers, so they are made safe for a terminal."""
    if not values:
        output.out.print("No tools.", markup=False)
        return
    table = Table("server", "tool", "pinned", "drift", "also a tool of", box=None, padding=(0, 2))
    for value in values:
        drift = f"[{'yellow' if value['drift'] == 'removed' else 'red'}]{value['drift']}[/]" if value["drift"] else ""
        server, tool = plain(value["server"], MAX_SHOWN), plain(value["tool"], MAX_SHOWN)
        table.add_row(server, tool, value["pinned_at"][:10], drift, plain(", ".join(value["shadows"]), MAX_SHOWN))
    output.out.print(table)
