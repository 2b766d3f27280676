"""A small MCP server over standard input and output, without any library: what it says is in a file of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "tiny", "version": "1"},
    "instructions": "Use `note` to look up a note.",
}


def answer(message: dict[str, Any], script: dict[str, Any]) -> dict[str, Any] | None:
    """The response to a request: of the script by method, or by tool; the arguments are echoed by default."""
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return {"result": {**INFO, **script.get("initialize", {})}}
    if method == "tools/call" and params["name"] not in script:
        text = json.dumps(params.get("arguments", {}))
        return {"result": {"content": [{"type": "text", "text": text}]}}
    value = script.get(params["name"] if method == "tools/call" else method, {})
    return value if "error" in value else {"result": value}


def main() -> None:
    """Serve until the end of the input. `raw` lines of the script are written before each answer."""
    path = Path(*sys.argv[1:] or ["script.json"])
    for line in sys.stdin:
        script = json.loads(path.read_text("utf-8"))
        message = json.loads(line)
        with path.with_suffix(".received").open("a", encoding="utf-8") as received:
            received.write(line)
        for raw in script.get("raw", []):
            sys.stdout.write(raw + "\n")
        if "method" in message and "id" in message:
            response = {"jsonrpc": "2.0", "id": message["id"], **(answer(message, script) or {})}
            sys.stdout.write(json.dumps(response, separators=(", ", ": ")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
