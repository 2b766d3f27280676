"""Twin of sidecar/server/in_process.py."""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict

from sidecar.server.in_process import in_process_request


async def test_a_request_has_all_that_handlers_read() -> None:
    """Method, target as received, query, headers, length, peer, body."""
    headers = CIMultiDict([("Content-Type", "application/json"), ("Content-Length", "3"), ("X-A", "1"), ("X-A", "2")])
    request = in_process_request("POST", "/v1/a%3Ab?x=1&y=%20", headers, b"{ }", remote="203.0.113.9")
    assert (request.method, request.raw_path, request.path) == ("POST", "/v1/a%3Ab?x=1&y=%20", "/v1/a:b")
    assert dict(request.query) == {"x": "1", "y": " "}
    assert request.headers.getall("X-A") == ["1", "2"]
    assert (request.content_length, request.remote) == (3, "203.0.113.9")
    assert await request.content.readany() == b"{ }"
    assert request.content.at_eof()


async def test_it_holds_what_handlers_leave_on_it() -> None:
    """State that middleware and handlers share."""
    request, key = in_process_request("GET", "/", CIMultiDict(), b"", remote=None), web.RequestKey("k", str)
    request[key] = "value"
    assert request[key] == "value"
    assert request.remote is None
    assert request.transport is None
