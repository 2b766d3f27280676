"""The official Python SDK as a client: prints all that a server offers, and what the calls of a file return."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def offered(session: ClientSession, capabilities: Any) -> dict[str, Any]:
    """Tools, resources and prompts."""
    found: dict[str, Any] = {"tools": (await session.list_tools()).model_dump(mode="json")}
    if capabilities.resources:
        found["resources"] = (await session.list_resources()).model_dump(mode="json")
        found["templates"] = (await session.list_resource_templates()).model_dump(mode="json")
    if capabilities.prompts:
        found["prompts"] = (await session.list_prompts()).model_dump(mode="json")
    return found


async def talk(calls: list[Any], target: list[str]) -> dict[str, Any]:
    """All that the server offers, and the results."""
    async with AsyncExitStack() as stack:
        if target[0].startswith("http"):
            streams = await stack.enter_async_context(streamable_http_client(target[0]))
        else:
            parameters = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
            streams = await stack.enter_async_context(stdio_client(parameters))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        started = await session.initialize()
        found = {"instructions": started.instructions, **await offered(session, started.capabilities)}
        results: list[Any] = []
        for tool, arguments in calls:
            try:
                results.append((await session.call_tool(tool, arguments)).model_dump(mode="json", exclude_none=True))
            except MCPError as error:
                results.append({"error": str(error)})
        await session.send_ping()
    return {**found, "results": results}


def main() -> None:
    """`client.py CALLS URL | client.py CALLS COMMAND ARGS...`: CALLS is a file with [[tool, arguments], ...]."""
    calls = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    sys.stdout.write(json.dumps(asyncio.run(talk(calls, sys.argv[2:]))))


if __name__ == "__main__":
    main()
