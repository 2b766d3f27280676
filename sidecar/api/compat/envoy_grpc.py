"""Envoy's `ext_authz` in its gRPC form, on a port of its own: each check is put to the HTTP form, over loopback.

So routes, roles, keys, the failure policy and the log are those of `envoy`. What this form adds: all headers come
without a list of them, and our keys and what only the sidecar may set are taken off before the request goes up. From
the documentation of Envoy 1.40 (`service/auth/v3`). Importing this needs the extra `[grpc]`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from sidecar.api.compat.envoy import PREFIX
from sidecar.api.compat.envoy_messages import OVERWRITE, SERVICE, CheckRequest, CheckResponse
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError, SidecarError, Unavailable
from sidecar.server.headers import HOP_BY_HOP, upstream_headers
from sidecar.server.responses import error_response

TIMEOUT = 60.0
SLACK = 1024 * 1024
"""Room for the headers beside the largest body."""
PERMISSION_DENIED = 7
_OWN_OF_A_CONNECTION = HOP_BY_HOP | {"host", "content-length", "expect"}
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what such a listener answers to


class GrpcChecks:
    """Answers `Check` while it listens. `is_on`: whether the HTTP form is there to be asked."""

    def __init__(self, settings: Settings, data_port: int, is_on: Callable[[], bool]) -> None:
        host = settings.listen.host
        self._data = URL.build(scheme="http", host=_EVERYWHERE.get(host, host), port=data_port)
        self._settings, self._is_on = settings, is_on
        self._stack = AsyncExitStack()
        self._session: ClientSession
        self._server: Any = None

    async def listen(self, port: int, *, share: bool = False) -> int:
        """Start to listen; returns the port. Raises `SidecarError`."""
        most = self._settings.scan.concurrency + self._settings.scan.queue
        self._session = ClientSession(
            connector=TCPConnector(limit=most),
            cookie_jar=DummyCookieJar(),
            skip_auto_headers=_AUTOMATIC,
            timeout=ClientTimeout(total=TIMEOUT),
        )
        self._stack.push_async_callback(self._session.close)
        longest = self._settings.limits.body_bytes + SLACK
        options = (("grpc.max_receive_message_length", longest), ("grpc.so_reuseport", int(share)))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=most)
        server.add_generic_rpc_handlers((_handler(self._check),))
        host = self._settings.listen.host
        try:
            bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError:
            raise SidecarError(f"cannot listen on {host}:{port} (listen.grpc_port)") from None
        await server.start()
        self._server = server
        return int(bound)

    async def close(self, left: float | None = None) -> None:
        """Take no more checks, let those that run end within `left` seconds (or the drain timeout)."""
        if self._server is not None:
            await self._server.stop(self._settings.drain.timeout if left is None else left)
        await self._stack.aclose()

    async def _check(self, asked: Any, _context: Any) -> Any:
        http = asked.attributes.request.http
        received = _headers(http)
        try:
            if not self._is_on():
                raise Unavailable("compat.envoy is off.", retry_after=1)
            _refuse_what_was_not_sent_whole(http, received)
            status, headers, body = await self._ask(http, received)
        except RequestError as refused:
            status, headers, body = _told(error_response(refused, "openai"))
        except (ClientError, TimeoutError, ValueError):
            # Not an error of the call: what a client can cause must not meet `failure_mode_allow`.
            status, headers, body = _told(
                error_response(Unavailable("No check was possible.", retry_after=1), "openai")
            )
        if status == 200:
            return _allowed(headers, _not_for_the_upstream(received))
        return _denied(status, headers, body)

    async def _ask(self, http: Any, received: CIMultiDict[str]) -> tuple[int, dict[str, str], str]:
        sent = [(name, value) for name, value in received.items() if name.lower() not in _OWN_OF_A_CONNECTION]
        # `Upgrade` alone asks for nothing, and is how the door knows of a socket.
        sent += [("Upgrade", value) for value in received.getall("Upgrade", ())]
        url = URL(f"{self._data}{PREFIX}{http.path}", encoded=True)
        given = CIMultiDict([*sent, ("Host", "localhost")])
        async with self._session.request(
            http.method, url, headers=given, data=http.raw_body or None, allow_redirects=False
        ) as answer:
            return answer.status, _shown(answer.headers), (await answer.read()).decode("utf-8", "replace")


def _handler(check: Callable[..., Any]) -> Any:
    method = grpc.unary_unary_rpc_method_handler(
        check,
        request_deserializer=CheckRequest.FromString,
        response_serializer=CheckResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Check": method})


def _allowed(headers: dict[str, str], remove: list[str]) -> Any:
    allowed = {"headers_to_remove": remove, "response_headers_to_add": _options(headers)}
    return CheckResponse(status={"code": 0}, ok_response=allowed)


def _denied(status: int, headers: dict[str, str], body: str) -> Any:
    denied = {"status": {"code": status}, "headers": _options(headers), "body": body}
    return CheckResponse(status={"code": PERMISSION_DENIED}, denied_response=denied)


def _options(headers: dict[str, str]) -> list[dict[str, Any]]:
    return [{"header": {"key": name, "value": value}, "append_action": OVERWRITE} for name, value in headers.items()]


def _headers(http: Any) -> CIMultiDict[str]:
    """The fields of the request, without those that HTTP/2 makes of the first line."""
    raw = ((field.key, field.raw_value.decode("utf-8", "replace") or field.value) for field in http.header_map.headers)
    pairs = [*((field.key, field.value) for field in http.headers), *raw]
    return CIMultiDict((name, value) for name, value in pairs if not name.startswith(":"))


def _refuse_what_was_not_sent_whole(http: Any, received: CIMultiDict[str]) -> None:
    """Raise `BodyError` for a check that was not given what would go up: by its length, or as bytes."""
    if not http.path.startswith("/"):
        raise BodyError("malformed", "The path must begin with a slash.")
    if http.body:
        raise BodyError("encoding", "Envoy sent the body as text: set pack_as_bytes to true.", status=415)
    declared = received.get("Content-Length", "")
    if max(http.size, int(declared) if declared.isdecimal() else 0) > len(http.raw_body):
        raise BodyError("oversize", "Envoy sent a part of the body alone: see with_request_body.", status=413)


def _not_for_the_upstream(received: CIMultiDict[str]) -> list[str]:
    kept = upstream_headers(received, decoded=False)
    return sorted({name.lower() for name in received if name not in kept} - _OWN_OF_A_CONNECTION)


def _shown(headers: Any) -> dict[str, str]:
    """The fields of an answer that the client sees."""
    hidden = _OWN_OF_A_CONNECTION | {"date", "server"}
    return {name.lower(): value for name, value in headers.items() if name.lower() not in hidden}


def _told(answer: web.Response) -> tuple[int, dict[str, str], str]:
    return answer.status, _shown(answer.headers), answer.text or ""
