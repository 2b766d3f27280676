"""What stands around every handler: the request id, the error boundary, the key and the rate.

Errors leave in the dialect of the door: `{"detail": ...}` on the scan API and the sidecar's own pages,
OpenAI's (or Anthropic's) envelope on the inline door. No traceback and no library text reaches a client.
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
from sidecar.config import Limits, Settings
from sidecar.errors import RateLimited, RequestError, Unauthorized, Unavailable
from sidecar.limits import Limiter, MemoryBudget
from sidecar.observability import tracing
from sidecar.observability.metrics import REFUSED
from sidecar.server.body import RESERVATION
from sidecar.server.caller import API_KEY
from sidecar.server.client_address import address_of, neighbourhood
from sidecar.server.responses import DECISION, DECISION_ID, DIALECT, KEY_ID, detail_response, error_response
from sidecar.server.server import ENDING, is_cut
from sidecar.util import logs

_log = logs.get("web")
UNTRACED = frozenset({"/health", "/ready", "/startup", "/metrics"})
OWN_PATHS = frozenset({"/", "/api", "/health", "/ready", "/startup", "/metrics", "/openapi.json"})


def is_own(path: str) -> bool:
    """Whether a path belongs to the sidecar itself and not, unless the settings name it, to the inline door."""
    return path in OWN_PATHS or path.startswith("/api/")


def not_here(request: web.Request, served: Iterable[str]) -> RequestError:
    """404, or 405 for a path that is served under another method."""
    if request.path in set(served):
        return _NotAllowed("This route does not take that method.")
    return _NoSuchRoute("There is no such route.")


def new_decision_id() -> str:
    """`dec_` and 26 hexadecimal digits."""
    return f"dec_{secrets.token_hex(13)}"


def boundary(budget: MemoryBudget | None = None, *, traced: bool = True) -> Middleware:
    """Every request gets an id and a lease in `room`; every error becomes an answer in the door's dialect.

    `traced`: it gets a span, too. Not on the admin port: the paths of its one-time links are secrets.
    """
    bodies = budget or MemoryBudget(Limits().bodies)

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[DECISION_ID] = new_decision_id()
        with bodies.reserve() as reservation:
            request[RESERVATION] = reservation
            if traced and tracing.is_enabled() and request.path not in UNTRACED:
                return await follow(request, handler)
            return await answer(request, handler)

    async def follow(request: web.Request, handler: Handler) -> web.StreamResponse:
        with tracing.request(request.method, request.path, request.headers) as answered:
            given = await answer(request, handler)
            answered(given.status)
            return given

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await _or_told(request, handler)
        except RequestError as error:
            return _answer(request, error)
        except web.HTTPException as error:
            return _answer(request, _from_http(error))
        except ConnectionResetError:
            raise
        except Exception as error:  # noqa: BLE001 - the last boundary: whatever it is, the client gets a 500
            if starved := _starved(error):
                bodies.release_reserve()
            with suppress(MemoryError):  # the answer is worth more than the line
                _log.error("memory_short" if starved else "request_failed", kind=type(error).__name__, at=where(error))
            busy = Unavailable("The scanner is busy.", retry_after=1)
            return _answer(request, busy if starved else _Internal("Internal server error."))

    return handle


async def _or_told(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a drain cuts is told so."""
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if not is_cut(request):
            raise
        raise Unavailable(ENDING, retry_after=1) from None


async def no_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: an upstream's `Server` passes, our library and its version are nobody's business."""
    if response.headers.get("Server") == SERVER_SOFTWARE:
        del response.headers["Server"]


def _starved(error: Exception) -> bool:
    """Whether the system had no memory for it, or no thread, which takes memory too."""
    return isinstance(error, MemoryError) or str(error) == "can't start new thread"


class _Internal(RequestError):
    status = 500
    code = "internal_error"


class _NoSuchRoute(RequestError):
    status = 404
    code = "not_found"


class _NotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"


def _from_http(error: web.HTTPException) -> RequestError:
    if error.status == 404:
        return _NoSuchRoute("There is no such route.")
    if error.status == 405:
        return _NotAllowed("This route does not take that method.")
    found = RequestError(error.reason)
    found.status = error.status
    return found


def _answer(request: web.Request, error: RequestError) -> web.StreamResponse:
    own = is_own(request.path) and DIALECT not in request
    REFUSED.labels("own" if own else "inline", str(error.status)).inc()
    answer = detail_response(error) if own else error_response(error, request.get(DIALECT, "openai"))
    answer.headers.setdefault(DECISION, request[DECISION_ID])
    if error.status == 405:
        answer.headers.setdefault("Allow", "POST" if request.path.startswith("/api/") else "GET")
    return answer


def where(error: BaseException) -> str:
    """Module and line of the failure: never its text, which may quote a prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "unknown"


class Gatekeeper:
    """Checks the key, then the rate, in that order.

    An address from which too many keys failed (`auth.failures`) waits before another key is looked up, and is told
    429 in place of 401. Keys that this process has found before pass: nobody locks out a neighbour at that address.
    """

    def __init__(self, keyring: KeyRing, limiter: Limiter, settings: Settings) -> None:
        self._keyring = keyring
        self._limiter = limiter
        self._limits = settings.limits
        self._failures = settings.auth.failures
        self._proxies = settings.listen.trusted_proxies

    async def admit(self, request: web.Request, value: str | None) -> ApiKey:
        """The valid key behind `value`; raises `Unauthorized`, `RateLimited` or `Unavailable`."""
        key = await self._authenticate(request, value)
        _pass(await self._limiter.take(key.id, key.rate or self._limits.rate, key.burst or self._limits.burst))
        request[KEY_ID] = key.id
        request[API_KEY] = key
        return key

    async def _authenticate(self, request: web.Request, value: str | None) -> ApiKey:
        if self._keyring.has_cached(value):
            with suppress(Unauthorized):  # it has ended since: counted below like any other
                return await self._keyring.authenticate(value)
        budget = (
            f"auth-from:{neighbourhood(address_of(request, self._proxies))}",
            self._failures,
            self._failures.requests,
        )
        _pass(await self._limiter.peek(*budget))
        try:
            return await self._keyring.authenticate(value)
        except Unauthorized:
            _pass(await self._limiter.take(*budget))
            raise


def _pass(wait: float) -> None:
    if wait > 0:
        seconds = max(1, math.ceil(wait))
        raise RateLimited(f"Rate limit exceeded; try again in {seconds} s.", retry_after=seconds)
