"""Envoy's `ext_authz` over gRPC, on its own port: each check is translated to the HTTP form, over loopback.

Routes, roles, keys, the failure policy and the log are therefore those of `envoy`. In addition, Envoy sends all headers
without listing them, and our keys and reserved headers are removed from the request before it is forwarded. From the
documentation of Envoy 1.40 (`service/auth/v3`). Importing this needs the extra `[grpc]`.
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
"""Bytes for headers in addition to the largest body."""
PERMISSION_DENIED = 7
_CONNECTION_HEADERS = HOP_BY_HOP | {"host", "content-length", "expect"}
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - the loopback address of such a listener


class GrpcAuthorization:
    """Server of `Check`. `is_on`: whether the HTTP form is enabled."""

    def __init__(self, settings: Settings, data_port: int, is_on: Callable[[], bool]) -> None:
        host = settings.listen.host
        self._data = URL.build(scheme="http", host=_LOOPBACK_OF.get(host, host), port=data_port)
        self._settings, self._is_on = settings, is_on
        self._stack = AsyncExitStack()
        self._session: ClientSession
        self._server: Any = None

    async def listen(self, port: int, *, share: bool = False) -> int:
        """Start listening; returns the port. Raises `SidecarError`."""
        max_concurrent = self._settings.scan.concurrency + self._settings.scan.queue
        self._session = ClientSession(
            connector=TCPConnector(limit=max_concurrent),
            cookie_jar=DummyCookieJar(),
            skip_auto_headers=_AUTOMATIC,
            timeout=ClientTimeout(total=TIMEOUT),
        )
        self._stack.push_async_callback(self._session.close)
        max_message_bytes = self._settings.limits.body_bytes + SLACK
        options = (("grpc.max_receive_message_length", max_message_bytes), ("grpc.so_reuseport", int(share)))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=max_concurrent)
        server.add_generic_rpc_handlers((_handler(self._check),))
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
        await self._stack.aclose()

    async def _check(self, check: Any, _context: Any) -> Any:
        http = check.attributes.request.http
        received_headers = _headers(http)
        try:
            if not self._is_on():
                raise Unavailable("compat.envoy is off.", retry_after=1)
            _require_whole_request(http, received_headers)
            status, headers, body = await self._check_over_http(http, received_headers)
        except RequestError as error:
            status, headers, body = _response_parts(error_response(error, "openai"))
        except (ClientError, TimeoutError, ValueError):
            # No gRPC error: a client must not be able to trigger `failure_mode_allow`.
            status, headers, body = _response_parts(
                error_response(Unavailable("No check was possible.", retry_after=1), "openai")
            )
        if status == 200:
            return _allowed(headers, _headers_to_remove(received_headers))
        return _denied(status, headers, body)

    async def _check_over_http(self, http: Any, received_headers: CIMultiDict[str]) -> tuple[int, dict[str, str], str]:
        forwarded = [
            (name, value) for name, value in received_headers.items() if name.lower() not in _CONNECTION_HEADERS
        ]
        # `Upgrade` without `Connection` has no effect, but the proxy recognises websockets by it.
        forwarded += [("Upgrade", value) for value in received_headers.getall("Upgrade", ())]
        url = URL(f"{self._data}{PREFIX}{http.path}", encoded=True)
        request_headers = CIMultiDict([*forwarded, ("Host", "localhost")])
        async with self._session.request(
            http.method, url, headers=request_headers, data=http.raw_body or None, allow_redirects=False
        ) as response:
            return (
                response.status,
                _client_headers(response.headers),
                (await response.read()).decode("utf-8", "replace"),
            )


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


def _headers_to_remove(received_headers: CIMultiDict[str]) -> list[str]:
    forwarded = upstream_headers(received_headers, decoded=False)
    return sorted({name.lower() for name in received_headers if name not in forwarded} - _CONNECTION_HEADERS)


def _client_headers(headers: Any) -> dict[str, str]:
    """The response headers that the client sees."""
    hidden = _CONNECTION_HEADERS | {"date", "server"}
    return {name.lower(): value for name, value in headers.items() if name.lower() not in hidden}


def _response_parts(response: web.Response) -> tuple[int, dict[str, str], str]:
    return response.status, _client_headers(response.headers), response.text or ""
