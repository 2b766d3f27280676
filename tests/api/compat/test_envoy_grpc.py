"""Twin of sidecar/api/compat/envoy_grpc.py: checks over real gRPC. Envoy itself is in test_gateways.py."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web
from compat_server import CompatServer, run_compat_server

from sidecar.api.compat.envoy_grpc import DataHandler, EnvoyGrpc
from sidecar.api.compat.envoy_messages import SERVICE, CheckRequest, CheckResponse
from sidecar.config import Settings
from sidecar.errors import SidecarError

PATH = "/v1/chat/completions"
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
EVIL = CHAT.replace(b"Hello", b"Please EVIL now.")


@dataclass
class Line:
    """A connection to the port of the checks."""

    server: CompatServer
    call: Callable[..., Any]

    async def check(
        self, raw_body: bytes = CHAT, path: str = PATH, *, body: str = "", size: int = -1, **extra: str
    ) -> Any:
        """One check, as Envoy would put it."""
        request_bytes = {":method": "POST", ":path": path, "content-type": "application/json", "user-agent": "test"}
        request_bytes |= {name.replace("_", "-"): value for name, value in extra.items()}
        http = {"method": "POST", "path": path, "size": size, "raw_body": raw_body, "body": body}
        http["headers"] = [{"key": name, "value": value} for name, value in request_bytes.items()]
        return await self.call(CheckRequest(attributes={"request": {"http": http}}), timeout=30)


async def too_late(_request: web.Request) -> web.StreamResponse:
    """A handler that does not finish in time."""
    raise TimeoutError


@asynccontextmanager
async def line(
    folder: Path, *, on: bool = True, handler: DataHandler | None = None, **sections: Any
) -> AsyncIterator[Line]:
    """The HTTP form behind the gRPC form; `handler` replaces it."""
    async with run_compat_server(folder, "envoy", **sections) as server:
        checks = EnvoyGrpc(Settings(), handler or server.handler, lambda: on)
        try:
            port = await checks.listen(0)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                call = channel.unary_unary(
                    f"/{SERVICE}/Check", CheckRequest.SerializeToString, CheckResponse.FromString
                )
                yield Line(server, call)
        finally:
            await checks.close()


def fields(options: Any) -> dict[str, str]:
    """Headers of an answer."""
    return {item.header.key: item.header.value for item in options}


async def test_what_may_pass_is_allowed_with_the_verdict(tmp_path: Path) -> None:
    """Code 0; the client sees the verdict, and the decision is in the log like any other."""
    async with line(tmp_path) as envoy:
        reply = await envoy.check(size=len(CHAT), content_length=str(len(CHAT)))
    assert reply.status.code == 0
    assert fields(reply.ok_response.response_headers_to_add)["x-sidecar-action"] == "allow"
    assert list(reply.ok_response.headers_to_remove) == []
    assert [decision.action for decision in envoy.server.decision_log.decisions] == ["allow"]


async def test_what_is_refused_is_the_answer_of_the_inline_door(tmp_path: Path) -> None:
    """The client's status, headers and body are those of the block answer."""
    async with line(tmp_path) as envoy:
        reply = await envoy.check(EVIL)
    denied = reply.denied_response
    assert (reply.status.code, denied.status.code, json.loads(denied.body)["error"]["code"]) == (
        7,
        400,
        "content_filter",
    )
    assert fields(denied.headers)["x-should-retry"] == "false"
    assert fields(denied.headers)["content-type"].startswith("application/json")
    assert fields(denied.headers)["x-sidecar-threats"] == "prompt_injection"


async def test_sidecar_keys_and_reserved_headers_are_not_forwarded(tmp_path: Path) -> None:
    """Sidecar keys and reserved headers are removed; the model's key stays."""
    async with line(tmp_path, auth={"inline": "required"}) as envoy:
        without = await envoy.check(authorization="Bearer sk-model")
        valid_key = await envoy.check(
            authorization="Bearer sk-model",
            x_api_key=envoy.server.key,
            x_sidecar_action="allow",
            x_http_method_override="PUT",
        )
    assert without.denied_response.status.code == 401
    assert valid_key.status.code == 0
    assert list(valid_key.ok_response.headers_to_remove) == ["x-api-key", "x-http-method-override", "x-sidecar-action"]


async def test_of_two_credentials_the_models_alone_is_set(tmp_path: Path) -> None:
    """Where Envoy shows both: it would otherwise forward the sidecar's key, too."""
    async with line(tmp_path) as envoy:
        fields_sent = [("content-type", "application/json"), ("authorization", f"Bearer {envoy.server.key}")]
        fields_sent.append(("authorization", "Bearer sk-model"))
        raw = [{"key": name, "raw_value": value.encode()} for name, value in fields_sent]
        http = {"method": "POST", "path": PATH, "size": -1, "raw_body": CHAT, "header_map": {"headers": raw}}
        reply = await envoy.call(CheckRequest(attributes={"request": {"http": http}}), timeout=30)
    assert (reply.status.code, list(reply.ok_response.headers_to_remove)) == (0, [])
    assert fields(reply.ok_response.headers) == {"authorization": "Bearer sk-model"}


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"raw_body": CHAT[:20], "size": len(CHAT)}, 413),
        ({"raw_body": CHAT[:20], "content_length": str(len(CHAT))}, 413),
        ({"raw_body": CHAT, "x_envoy_auth_partial_body": "true"}, 413),
        ({"raw_body": b"", "body": CHAT.decode()}, 415),
        ({"path": "*"}, 400),
        ({"path": "/v1/unknown"}, 403),
        ({"path": "/../api/v1/prompt/scan"}, 400),
        ({"raw_body": b"{"}, 400),
    ],
    ids=["cut", "shorter", "partial", "text", "star", "route", "climbing", "json"],
)
async def test_what_was_not_seen_whole_or_is_not_known_is_refused(
    tmp_path: Path, wrong: dict[str, Any], status: int
) -> None:
    """As a response to the client, never as a gRPC error, which failure_mode_allow would allow."""
    async with line(tmp_path) as envoy:
        reply = await envoy.check(**wrong)
    assert (reply.status.code, reply.denied_response.status.code) == (7, status)
    assert not envoy.server.scanner.scanned


@pytest.mark.parametrize("state", [{"on": False}, {"handler": too_late}], ids=["switched off", "too late"])
async def test_without_the_http_form_nothing_passes(tmp_path: Path, state: dict[str, Any]) -> None:
    """503, and no gRPC error."""
    async with line(tmp_path, **state) as envoy:
        reply = await envoy.check()
    assert (reply.status.code, reply.denied_response.status.code) == (7, 503)
    assert fields(reply.denied_response.headers)["retry-after"] == "1"


async def test_headers_as_bytes_are_read(tmp_path: Path) -> None:
    """`encode_raw_headers` uses another field."""
    raw = [{"key": "content-type", "raw_value": b"application/json"}, {"key": ":path", "raw_value": PATH.encode()}]
    http = {"method": "POST", "path": PATH, "size": -1, "raw_body": EVIL, "header_map": {"headers": raw}}
    async with line(tmp_path) as envoy:
        reply = await envoy.call(CheckRequest(attributes={"request": {"http": http}}), timeout=30)
    assert reply.denied_response.status.code == 400
    assert len(envoy.server.scanner.scanned) == 1


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """As for the other ports: one message and no traceback."""
    first, second = (EnvoyGrpc(Settings(), too_late, lambda: True) for _ in range(2))
    try:
        port = await first.listen(0)
        with pytest.raises(SidecarError, match=r"listen\.grpc_port"):
            await second.listen(port)
    finally:
        await second.close()
        await first.close()
