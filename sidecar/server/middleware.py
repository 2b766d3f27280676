"""Middleware around every handler: the decision id, the error boundary, authentication and rate limits.

Errors are returned in the dialect of the endpoint: `{"detail": ...}` on the scan API and the sidecar's own pages,
OpenAI's (or Anthropic's) envelope on the inline proxy. No traceback and no library text reaches a client.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import traceback
from collections.abc import Iterable
from contextlib import suppress

from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE
from aiohttp.typedefs import Handler, Middleware

from sidecar.auth.api_keys import ApiKey, KeyRing
from sidecar.config import Limits, Profile, Settings
from sidecar.errors import RateLimited, RequestError, Unauthorized, Unavailable
from sidecar.limits import Limiter, MemoryBudget
from sidecar.observability import tracing
from sidecar.observability.metrics import REFUSED
from sidecar.server.body import RESERVATION
from sidecar.server.caller import API_KEY, LOOPBACK, client_network
from sidecar.server.client_address import address_of, rate_limit_network
from sidecar.server.headers import sidecar_key
from sidecar.server.refused_keys import RefusedKeys
from sidecar.server.responses import DECISION, DECISION_ID, DIALECT, ERROR_FORM, KEY_ID, detail_response, error_response
from sidecar.server.server import SHUTTING_DOWN, was_cut
from sidecar.storage import Cause
from sidecar.util import logs

_log = logs.get("web")
UNTRACED = frozenset({"/health", "/ready", "/startup", "/metrics"})
HINT = "The scan API is described at /openapi.json, models are below /v1, the dashboard is on the admin port."
SIDECAR_PATHS = frozenset({"/", "/api", "/health", "/ready", "/startup", "/metrics", "/openapi.json"})


def is_sidecar_path(path: str) -> bool:
    """Whether a path is served by the sidecar itself and, unless configured otherwise, not by the inline proxy."""
    return path in SIDECAR_PATHS or path.startswith("/api/")


def no_route_error(request: web.Request, served: Iterable[str]) -> RequestError:
    """A 404, or a 405 if the path is served with another method."""
    if request.path in set(served):
        return _MethodNotAllowed("This route does not take that method.")
    hint = f" {HINT}" if request.path in {"/", "/api"} else ""
    return _NoSuchRoute(f"There is no such route.{hint}")


def new_decision_id() -> str:
    """`dec_` and 26 hexadecimal digits."""
    return f"dec_{secrets.token_hex(13)}"


def error_boundary(budget: MemoryBudget | None = None, *, traced: bool = True) -> Middleware:
    """Assign every request an id and a memory reservation; turn every error into a response in its dialect.

    `traced`: also open a span. Not on the admin port, where the paths of one-time links are secrets.
    """
    body_budget = budget or MemoryBudget(Limits().bodies)

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[DECISION_ID] = new_decision_id()
        with body_budget.reserve() as reservation:
            request[RESERVATION] = reservation
            if traced and tracing.is_enabled() and request.path not in UNTRACED:
                return await follow(request, handler)
            return await handle_errors(request, handler)

    async def follow(request: web.Request, handler: Handler) -> web.StreamResponse:
        with tracing.request(request.method, request.path, request.headers) as set_status:
            response = await handle_errors(request, handler)
            set_status(response.status)
            return response

    async def handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await _run_handler(request, handler)
        except RequestError as error:
            return _error_response(request, error)
        except web.HTTPException as error:
            return _error_response(request, _from_http(error))
        except ConnectionResetError:
            raise
        except Exception as error:  # noqa: BLE001 - the last boundary: for any error the client gets a 500
            if out_of_memory := _is_out_of_memory(error):
                body_budget.release_reserve()
            event = "memory_short" if out_of_memory else "request_failed"
            with suppress(MemoryError):  # the response matters more than the log line
                _log.error(event, kind=type(error).__name__, at=error_location(error))
            busy = Unavailable("The scanner is busy.", retry_after=1)
            return _error_response(request, busy if out_of_memory else _Internal("Internal server error."))

    return handle


async def _run_handler(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Run the handler; if the drain cancels it, answer that the sidecar is shutting down."""
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if not was_cut(request):
            raise
        raise Unavailable(SHUTTING_DOWN, retry_after=1) from None


async def no_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: remove aiohttp's `Server` header with its version; an upstream's header passes."""
    if response.headers.get("Server") == SERVER_SOFTWARE:
        del response.headers["Server"]


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the system ran out of memory, or of threads, which need memory as well."""
    return isinstance(error, MemoryError) or str(error) == "can't start new thread"


class _Internal(RequestError):
    status = 500
    code = "internal_error"


class _NoSuchRoute(RequestError):
    status = 404
    code = "not_found"


class _MethodNotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"


def _from_http(error: web.HTTPException) -> RequestError:
    if error.status == 404:
        return _NoSuchRoute("There is no such route.")
    if error.status == 405:
        return _MethodNotAllowed("This route does not take that method.")
    converted = RequestError(error.reason)
    converted.status = error.status
    return converted


def _error_response(request: web.Request, error: RequestError) -> web.StreamResponse:
    is_sidecar = is_sidecar_path(request.path) and DIALECT not in request
    REFUSED.labels("own" if is_sidecar else "inline", str(error.status)).inc()
    form = request.get(ERROR_FORM)
    if form is not None:
        response: web.Response = form(error)
    else:
        response = detail_response(error) if is_sidecar else error_response(error, request.get(DIALECT, "openai"))
    response.headers.setdefault(DECISION, request[DECISION_ID])
    if error.status == 405:
        response.headers.setdefault("Allow", "POST" if request.path.startswith("/api/") else "GET")
    return response


def error_location(error: BaseException) -> str:
    """Module and line of the failure, without its message, which may quote a prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "unknown"


IDENTITY = web.RequestKey("identity", tuple[str | None, ApiKey | RequestError])
"""The value of a key and what authenticating it gave, if a request was identified before it is admitted."""


class Gatekeeper:
    """Checks the key, then the rate limits.

    An address with too many failed keys (`auth.failures`) has to wait before another key is looked up, and gets a
    429 instead of a 401. Keys in this process's cache pass: an attacker cannot lock out others at the same address.
    """

    def __init__(
        self,
        keyring: KeyRing,
        limiter: Limiter,
        settings: Settings,
        refused_keys: RefusedKeys | None = None,
        profile: tuple[str, Profile] | None = None,
    ) -> None:
        """`refused_keys`: those of all configurations of the process, whose counts outlive a reload.

        `profile`: the one of the requests that are admitted here, whose budget they share.
        """
        self._profile = profile
        self._keyring = keyring
        self._limiter = limiter
        self._limits = settings.limits
        self._failures = settings.auth.failures
        self._refused = refused_keys or RefusedKeys()
        self._proxies = settings.listen.trusted_proxies
        self._key_required = settings.auth.inline == "required"

    async def identify(self, request: web.Request, value: str) -> ApiKey | None:
        """The key of `value`, if it is valid; `admit` does not authenticate it again, and raises what was wrong."""
        try:
            key = await self._authenticate(request, value)
        except RequestError as error:
            request[IDENTITY] = (value, error)
            return None
        request[IDENTITY] = (value, key)
        return key

    def refuse(self, request: web.Request, error: RequestError) -> None:
        """Let `admit` and `admit_inline` raise this error, in the format of the entry point."""
        request[IDENTITY] = (None, error)

    async def admit(self, request: web.Request, value: str | None) -> ApiKey:
        """Authenticate `value` and return its key; raises `RequestError`, mostly `Unauthorized` or `RateLimited`."""
        key = await self._authenticate(request, value)
        self._check_profile(key)
        limits = (key.rate or self._limits.rate, key.burst or self._limits.burst)
        self._check(await self._limiter.take(key.id, *limits), key.id, "rate")
        request[KEY_ID] = request[RESERVATION].client = key.id
        request[API_KEY] = key
        if self._profile is not None:
            await self._take_budget(key.id)
        return key

    async def admit_inline(self, request: web.Request) -> None:
        """Admit a request that may do without a key (`auth.inline`); raises as `admit` and `admit_address` do."""
        key = sidecar_key(request.headers)
        if key is not None or self._key_required or IDENTITY in request:
            await self.admit(request, key)
        elif self._proxies or request.remote not in LOOPBACK:
            await self.admit_address(request)
        else:
            request[RESERVATION].client = request.remote or ""
            if self._profile is not None:
                await self._take_budget()

    async def admit_address(self, request: web.Request) -> None:
        """Admit a request without a key; raises `RateLimited`. The clients on loopback have no rate: all share it."""
        address = request[RESERVATION].client = client_network(request, self._proxies)
        if address not in LOOPBACK:
            limits = (self._limits.address_rate, self._limits.address_burst)
            self._check(await self._limiter.take(f"from:{address}", *limits), None, "rate")
        if self._profile is not None:
            await self._take_budget()

    async def charge(self, request: web.Request, size: int) -> None:
        """Count the bytes of an admitted body in the budget of its key or address; raises `RateLimited`."""
        rate, client = self._limits.bytes, request[RESERVATION].client
        wait = await self._limiter.take(f"bytes:{client}", rate, rate.requests, size)
        self._check(wait, request.get(KEY_ID), "bytes")

    def count_busy(self, request: web.Request) -> None:
        """Count an admitted request that is answered 429, since there is no place or memory for its scan."""
        self._keyring.refusals.add(request.get(KEY_ID), "busy")

    def _check(self, wait: float, key_id: str | None, cause: Cause) -> None:
        """Raise `RateLimited`, and count it for the key, if it has to wait."""
        if wait > 0:
            self._keyring.refusals.add(key_id, cause)
        _check_wait(wait)

    async def _take_budget(self, key_id: str | None = None) -> None:
        """Count the request in the budget that all clients of the profile share; raises `RateLimited`."""
        name, profile = self._profile or ("", Profile())
        if profile.budget is not None:
            burst = profile.burst or self._limits.burst
            self._check(await self._limiter.take(f"profile:{name}", profile.budget, burst), key_id, "budget")

    def _check_profile(self, key: ApiKey) -> None:
        """A websocket keeps the profile that it began with: raise `Unavailable` if the key has another one now."""
        if key.profile is not None and key.profile != (self._profile[0] if self._profile else None):
            raise Unavailable("The profile of the key has changed; connect again.", retry_after=1)

    async def _authenticate(self, request: web.Request, value: str | None) -> ApiKey:
        if IDENTITY in request:
            return _identified(request.pop(IDENTITY), value) or await self._authenticate(request, value)
        if self._keyring.has_cached(value):
            with suppress(Unauthorized):  # no longer valid: counted below like any other
                return await self._keyring.authenticate(value)
        address = address_of(request, self._proxies)
        budget = (f"auth-from:{rate_limit_network(address)}", self._failures, self._failures.requests)
        try:
            _check_wait(await self._limiter.peek(*budget))
            return await self._keyring.authenticate(value)
        except Unauthorized as error:
            self._refused.note(address, error)
            _check_wait(await self._limiter.take(*budget))
            raise
        except RateLimited as error:
            self._refused.note(address, error)
            raise


def _identified(identity: tuple[str | None, ApiKey | RequestError], value: str | None) -> ApiKey | None:
    """The key that was identified, if `value` is still its value; raises what was wrong with it."""
    identified, key = identity
    if isinstance(key, RequestError):
        raise key
    return key if identified == value else None


def _check_wait(wait: float) -> None:
    if wait > 0:
        seconds = max(1, math.ceil(wait))
        raise RateLimited(f"Rate limit exceeded; try again in {seconds} s.", retry_after=seconds)
