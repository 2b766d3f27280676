"""What is used of aiohttp beside its public interface: two adapter modules, and these names."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.web_protocol import RequestHandler

SIDECAR = Path(__file__).parent.parent / "sidecar"
ADAPTERS = {"server/server.py", "upstream/connection_pool.py"}
"""The modules that may derive from aiohttp's classes and use their private attributes."""
HANDLER = frozenset(
    {"_current_request", "_loop", "_manager", "_messages", "_reading_paused", "_request_count", "_task_handler"}
)
RUNNER = frozenset({"_make_server"})
SERVER = frozenset({"_connections", "_kwargs", "_loop"})
CLIENT = frozenset({"_reading_paused"})


async def test_the_private_names_are_there() -> None:
    """Another version of aiohttp that lacks one of them fails here, and not in production."""

    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response()

    server = web.Server(answer)
    handler = server()
    client = ResponseHandler(asyncio.get_running_loop())
    runner = web.AppRunner(web.Application())
    for owner, names in ((handler, HANDLER), (server, SERVER), (client, CLIENT), (runner, RUNNER)):
        assert [name for name in sorted(names) if not hasattr(owner, name)] == []


def private_names(path: Path) -> set[str]:
    """Private attributes that a module reads of something it does not define itself."""
    tree = ast.parse(path.read_text("utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    stored = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    slots = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr.startswith("_")}
    return {name for name in read - stored - slots - own if not name.startswith("__")} | (own & RUNNER)


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_an_adapter_uses_no_other_private_name(name: str) -> None:
    """The lists above are complete."""
    assert private_names(SIDECAR / name) <= HANDLER | RUNNER | SERVER | CLIENT


def test_only_the_adapters_derive_from_aiohttps_protocols() -> None:
    """Everything else uses the public interface."""
    derived = set()
    for path in SIDECAR.rglob("*.py"):
        bases = {
            base.id if isinstance(base, ast.Name) else base.attr
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name | ast.Attribute)
        }
        if bases & {RequestHandler.__name__, ResponseHandler.__name__, "AppRunner", "Server"}:
            derived.add(str(path.relative_to(SIDECAR)))
    assert derived == ADAPTERS
