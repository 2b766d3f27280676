"""A scripted model: a loopback server that answers every request with the next step of its script, and records it."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clients.dialects import DIALECTS, MODEL, Call, Dialect, Json, Step

ASIDE = "Files in a folder"
"""The answer to a request that does not offer the tools of the script, which mostly asks for a title."""


@dataclass
class ScriptedModel:
    """Its script, and the requests it received."""

    steps: Sequence[Step] = (ASIDE,)
    refuses: str | None = None
    """A request that contains this text gets a plain 400."""
    requests: list[tuple[str, Json]] = field(default_factory=list)
    refused: int = 0
    elsewhere: list[str] = field(default_factory=list)
    """Requests to any other route, and hosts that a client tried to reach with this server as its proxy."""
    url: str = ""

    def begin(self, steps: Sequence[Step], refuses: str | None = None) -> None:
        """Start a new script and forget all requests."""
        self.steps, self.refuses, self.refused = steps, refuses, 0
        self.requests.clear()
        self.elsewhere.clear()

    def holding(self, text: str) -> int:
        """Number of requests that contain this text."""
        return sum(text in json.dumps(body, ensure_ascii=False) for _, body in self.requests)

    def next_step(self, dialect: Dialect, body: Json) -> tuple[Step, int]:
        """The step that a request is answered with, and its number."""
        number = dialect.taken(body)
        if number >= len(self.steps):
            return self.steps[-1], number
        step = self.steps[number]
        if isinstance(step, Call) and json.dumps(step.name) not in json.dumps(body.get("tools", [])):
            return ASIDE, number
        return step, number


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == "/v1/models":
            data = [{"id": MODEL, "object": "model", "type": "model", "created": 0, "owned_by": "test"}]
            self._send(200, {"object": "list", "data": data, "has_more": False})
        else:
            self._unknown()

    def do_CONNECT(self) -> None:
        self._unknown()

    do_HEAD = do_PUT = do_DELETE = do_CONNECT  # noqa: N815 - the names in the standard library

    def do_POST(self) -> None:
        path, body = self.path.partition("?")[0], self._body()
        if path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": 10})
        elif dialect := DIALECTS.get(path):
            self.model.requests.append((path, body))
            self._answer(dialect, body)
        else:
            self._unknown()

    def _answer(self, dialect: Dialect, body: Json) -> None:
        if self.model.refuses and self.model.refuses in json.dumps(body, ensure_ascii=False):
            self.model.refused += 1
            self._send(400, dialect.error("The request was rejected."))
            return
        step, number = self.model.next_step(dialect, body)
        if body.get("stream"):
            self._send(200, b"".join(dialect.events(step, number)), "text/event-stream")
        else:
            self._send(200, dialect.whole(step, number))

    def _body(self) -> Any:
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(gzip.decompress(given) if self.headers.get("Content-Encoding") == "gzip" else given)

    def _unknown(self) -> None:
        self.model.elsewhere.append(f"{self.command} {self.path}")
        self._send(404, {"error": {"message": "Not found."}})

    def _send(self, status: int, body: Json | bytes, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def scripted() -> Iterator[ScriptedModel]:
    """A running scripted model."""
    model = ScriptedModel()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
