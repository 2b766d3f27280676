"""Envoy's gRPC port: `ext_authz`, each check answered by the HTTP form's handler in this process, and `ext_proc`.

Routes, roles, keys, the failure policy and the log are therefore those of `envoy`. In addition, Envoy sends all headers
without listing them, and our keys and reserved headers are removed from the request before it is forwarded. From the
documentation of Envoy 1.40 (`service/auth/v3`). Importing this needs the extra `[grpc]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from aiohttp import web
from multidict import CIMultiDict

from sidecar.api.compat.envoy import PREFIX
from sidecar.api.compat.envoy_direction import CONNECTION_HEADERS, header_differences, header_options, own_headers
from sidecar.api.compat.envoy_messages import SERVICE, CheckRequest, CheckResponse
from sidecar.api.compat.envoy_processor import DataHandler, Processor, peer_address
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError, SidecarError, Unavailable
from sidecar.server.headers import upstream_headers
from sidecar.server.in_process import in_process_request
from sidecar.server.responses import error_response
from sidecar.util.timeouts import with_timeout

TIMEOUT = 60.0
SLACK = 1024 * 1024
"""Bytes for headers in addition to the largest body."""
PERMISSION_DENIED = 7


class EnvoyGrpc:
    """Server of `Check` and `Process`.

    `handler`: answers requests of the data port. `is_on`: whether the HTTP form is enabled.
    """

    def __init__(self, settings: Settings, handler: DataHandler, is_on: Callable[[], bool]) -> None:
        self._settings, self._handler, self._is_on = settings, handler, is_on
        self._server: Any = None

    async def listen(self, port: int, *, share: bool = False) -> int:
        """Start listening; returns the port. Raises `SidecarError`."""
        limits = self._settings.limits
        max_message_bytes = max(limits.body_bytes, self._settings.answers.body_bytes) + SLACK
        options = (("grpc.max_receive_message_length", max_message_bytes), ("grpc.so_reuseport", int(share)))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.connections)
        processor = Processor(self._settings, self._handler, self._is_on)
        server.add_generic_rpc_handlers((_handler(self._check), processor.rpc_handler()))
        host = self._settings.listen.host
        try:
            bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError:
            raise SidecarError(f"cannot listen on {host}:{port} (listen.grpc_port)") from None
        await server.start()
        self._server = server
        return int(bound)

    async def close(self, grace: float | None = None) -> None:
        """Accept no more checks; running ones have `grace` seconds (default: the drain timeout) to finish."""
        if self._server is not None:
            await self._server.stop(self._settings.drain.timeout if grace is None else grace)

    async def _check(self, check: Any, context: Any) -> Any:
        http = check.attributes.request.http
        received_headers = _headers(http)
        try:
            if not self._is_on():
                raise Unavailable("compat.envoy is off.", retry_after=1)
            _require_whole_request(http, received_headers)
            request = in_process_request(
                http.method,
                f"{PREFIX}{http.path}",
                _request_headers(received_headers, len(http.raw_body)),
                http.raw_body,
                remote=peer_address(context.peer()),
            )
            response = await with_timeout(TIMEOUT, self._answer(request))
        except RequestError as error:
            response = error_response(error, "openai")
        except (TimeoutError, ValueError):
            # No gRPC error: a client must not be able to trigger `failure_mode_allow`.
            response = error_response(Unavailable("No check was possible.", retry_after=1), "openai")
        if response.status == 200:
            return _allowed(own_headers(response), received_headers, self._settings.gateway.header)
        return _denied(response.status, own_headers(response), _text(response))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        return await self._handler(request)


def _handler(check: Callable[..., Any]) -> Any:
    method = grpc.unary_unary_rpc_method_handler(
        check,
        request_deserializer=CheckRequest.FromString,
        response_serializer=CheckResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Check": method})


def _allowed(headers: CIMultiDict[str], received_headers: CIMultiDict[str], reserved: str) -> Any:
    forwarded = upstream_headers(received_headers, decoded=False, reserved=reserved)
    removals, changes = header_differences(received_headers, forwarded)
    allowed = {
        "headers": header_options(changes, raw=False),
        "headers_to_remove": removals,
        "response_headers_to_add": header_options(headers, raw=False),
    }
    return CheckResponse(status={"code": 0}, ok_response=allowed)


def _denied(status: int, headers: CIMultiDict[str], body: str) -> Any:
    denied = {"status": {"code": status}, "headers": header_options(headers, raw=False), "body": body}
    return CheckResponse(status={"code": PERMISSION_DENIED}, denied_response=denied)


def _headers(http: Any) -> CIMultiDict[str]:
    """The headers of the request, without HTTP/2 pseudo-headers."""
    raw = ((field.key, field.raw_value.decode("utf-8", "replace") or field.value) for field in http.header_map.headers)
    pairs = [*((field.key, field.value) for field in http.headers), *raw]
    return CIMultiDict((name, value) for name, value in pairs if not name.startswith(":"))


def _require_whole_request(http: Any, received_headers: CIMultiDict[str]) -> None:
    """Raise `BodyError` unless Envoy sent the whole body, as bytes."""
    if not http.path.startswith("/"):
        raise BodyError("malformed", "The path must begin with a slash.")
    if http.body:
        raise BodyError("encoding", "Envoy sent the body as text: set pack_as_bytes to true.", status=415)
    declared = received_headers.get("Content-Length", "")
    if max(http.size, int(declared) if declared.isdecimal() else 0) > len(http.raw_body):
        raise BodyError("oversize", "Envoy sent a part of the body alone: see with_request_body.", status=413)


def _request_headers(received_headers: CIMultiDict[str], body_size: int) -> CIMultiDict[str]:
    forwarded = [(name, value) for name, value in received_headers.items() if name.lower() not in CONNECTION_HEADERS]
    # `Upgrade` without `Connection` has no effect, but the proxy recognises websockets by it.
    forwarded += [("Upgrade", value) for value in received_headers.getall("Upgrade", ())]
    return CIMultiDict([*forwarded, ("Host", "localhost"), ("Content-Length", str(body_size))])


def _text(response: web.StreamResponse) -> str:
    return (response.text or "") if isinstance(response, web.Response) else ""
