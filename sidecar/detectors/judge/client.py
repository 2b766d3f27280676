"""HTTP client of the judge's server: one overall deadline, few retries, and never more calls or tokens than budgeted.

Servers differ in what they accept. `_DIALECTS` lists the request forms, the best first; a 400, 404 or 422 leads to the
next, an answer cut at the limit of tokens to the next with room for thoughts, and the first that works is kept; a
decision model (`decision`) has one form. Every failure raises `LayerError` with its cause; no part of a prompt or a
response enters an error or a log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import aiohttp
import tenacity

from sidecar.config import JudgeLayer
from sidecar.config.secret_files import read_secret
from sidecar.detectors.judge import decision, response
from sidecar.detectors.judge.limits import Budget, CircuitBreaker, RetryBudget
from sidecar.errors import ConfigError, LayerError
from sidecar.observability import metrics
from sidecar.util import json
from sidecar.util.bulkhead import Bulkhead, BulkheadFull
from sidecar.util.connections import describe_connection

CHAT_SUFFIX = "/chat/completions"
MAX_RESPONSE_BYTES = 1 << 20
OUTPUT_TOKENS = 400
THINKING_TOKENS = 4000
OVERHEAD_TOKENS = 64
EWMA_WEIGHT = 0.2
"""Weight of the latest call in the typical duration."""
TIMEOUT_MARGIN = 1.0
"""Seconds by which the HTTP library's own timeout is later, so that the deadline of `slot` is the one reported."""
BYTES_PER_TOKEN = 3
"""A text has at most as many tokens as bytes, and typically a third: the charge of an unanswered call."""

DENIED = frozenset({401, 402, 403})
"""Statuses of a wrong key, or of no money."""
CUT = 200
"""The status of an answer that was cut at the limit of tokens."""
_DIALECTS: tuple[frozenset[str], ...] = (
    frozenset({"schema", "logprobs", "classic"}),
    frozenset({"schema", "classic"}),
    frozenset({"schema", "thinking"}),
    frozenset({"classic"}),
    frozenset({"thinking"}),
)
_DECISION_DIALECTS: tuple[frozenset[str], ...] = (frozenset(),)
_DIALECT_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "logprobs": {"logprobs": True, "top_logprobs": 10},
    "classic": {"max_tokens": OUTPUT_TOKENS, "temperature": 0},
    "thinking": {"max_completion_tokens": THINKING_TOKENS},
}


class _RetryableError(Exception):
    """Worth a retry, not before `retry_after` seconds if the server said so; `reason` for the log."""

    def __init__(self, reason: str, retry_after: float = 0.0, cause: str = "unavailable", status: int = 0) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.cause = cause
        super().__init__(reason)


class _UnsupportedDialectError(Exception):
    """The server does not accept this form of request, or its answer does not fit into it (status 200)."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)


@dataclass(frozen=True, slots=True)
class Completion:
    """A raw response, and the tokens it cost."""

    envelope: dict[str, Any]
    tokens: int


class JudgeClient:
    """A client of one server, OpenAI-compatible or of decisions.

    `slot` reserves a call and its deadline; `ask` works within it.
    """

    def __init__(self, settings: JudgeLayer, schema: Mapping[str, Any]) -> None:
        self._settings = settings
        self._url = _endpoint(settings.url)
        self._dialects = _DECISION_DIALECTS if decision.is_decision_url(self._url) else _DIALECTS
        self._headers = _headers(settings)
        self._schema = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema},
        }
        self._bulkhead = Bulkhead(settings.concurrency, settings.queue)
        self._breaker = CircuitBreaker(settings.breaker_failures, settings.breaker_pause)
        self._retries = RetryBudget()
        self._calls, self._tokens = Budget(settings.calls), Budget(settings.tokens)
        for name, budget in (("calls", self._calls), ("tokens", self._tokens)):
            metrics.JUDGE_BUDGET.labels(name).set_function(partial(getattr, budget, "remaining"))
        self._dialect, self._dialect_confirmed = 0, False
        self._typical_duration = 0.0
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Reserve a call for at most `timeout` seconds, waiting included; yields the deadline."""
        self._breaker.check()
        deadline = time.monotonic() + self._settings.timeout
        try:
            async with asyncio.timeout(self._settings.timeout), self._bulkhead:
                self._breaker.admit()
                try:
                    yield deadline
                finally:
                    self._breaker.release()
        except BulkheadFull:
            raise LayerError("queue_full") from None
        except TimeoutError:
            raise LayerError("deadline") from None

    async def ask(self, question: Mapping[str, Any], deadline: float, *, calls: int = 1) -> Completion:
        """One response; `deadline` is on the monotonic clock. `calls`: for how many the budget must have room.

        `question`: the body without the model, with `messages`, or with the state and questions of a decision.

        A call that typically takes longer than the remaining time is not started: many servers keep working for a
        client that has left, and its cost is lost.
        """
        if deadline - time.monotonic() < self._typical_duration:
            raise LayerError("deadline")
        self._retries.record_call()
        refusal = 0
        for dialect in range(self._dialect, len(self._dialects)):
            if refusal == CUT and "thinking" not in self._dialects[dialect]:
                continue
            try:
                reply = await self._in_dialect(dialect, question, deadline, calls)
            except _UnsupportedDialectError as error:
                refusal = error.status
                if self._dialect_confirmed and dialect == self._dialect and refusal != CUT:
                    break
                continue
            if not response.is_cut_short(reply.envelope):
                self._dialect, self._dialect_confirmed = dialect, True
            return reply
        if refusal == CUT:
            raise LayerError("garbage", "garbage: cut short")
        if refusal == 404:
            self._breaker.failure("status_404")
        raise LayerError("unavailable", "the request was refused in every form")

    async def _in_dialect(self, dialect: int, question: Mapping[str, Any], deadline: float, calls: int) -> Completion:
        reply = await self._with_retries(self._body(question, dialect), deadline, calls)
        if response.is_cut_short(reply.envelope) and "thinking" not in self._dialects[dialect]:
            raise _UnsupportedDialectError(CUT)
        return reply

    async def lists_model(self) -> bool:
        """Whether the server's list of models, which costs nothing, names this one.

        Raises `LayerError` if the server refuses the connection or the key.
        """
        url = self._url.removesuffix(CHAT_SUFFIX).removesuffix(decision.SUFFIX) + "/models"
        try:
            async with self._open_session().get(url, headers=self._headers, allow_redirects=False) as reply:
                if reply.status in DENIED:
                    raise LayerError("unavailable", f"status_{reply.status}")
                models = json.loads(await _read_bounded(reply)) if reply.ok else None
        except (aiohttp.ClientError, OSError) as error:
            raise LayerError("unavailable", describe_connection(error)) from None
        except (ValueError, _RetryableError):  # no JSON, or too much of it
            return False
        listed = (models.get("data") or models.get("models")) if isinstance(models, dict) else None
        return isinstance(listed, list) and any(
            isinstance(model, dict) and self._settings.model in (model.get("id"), model.get("name")) for model in listed
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _body(self, question: Mapping[str, Any], dialect: int) -> bytes:
        body: dict[str, Any] = {"model": self._settings.model, **question}
        for option in sorted(self._dialects[dialect]):
            body |= {"response_format": self._schema} if option == "schema" else _DIALECT_OPTIONS[option]
        return json.dumps(body, json.LARGE)

    async def _with_retries(self, body: bytes, deadline: float, calls: int) -> Completion:
        """Retry while attempts, time and the retry budget last."""
        exhausted = tenacity.stop_any(
            tenacity.stop_after_attempt(self._settings.attempts),
            tenacity.stop_before_delay(deadline - time.monotonic()),
        )
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_RetryableError),
            wait=_wait,
            stop=lambda state: exhausted(state) or not self._retries.take(),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, body, calls)
        except _RetryableError as error:
            self._breaker.pause_for(error.retry_after)
            raise LayerError(error.cause, error.reason) from None

    async def _attempt(self, body: bytes, calls: int) -> Completion:
        """One HTTP call, charged in advance and corrected afterwards. A refused call costs nothing."""
        reserve = len(body) + OVERHEAD_TOKENS + (THINKING_TOKENS if b"max_completion" in body else OUTPUT_TOKENS)
        if not (self._calls.fits(calls) and self._tokens.fits(calls * reserve)):
            raise LayerError("budget")
        self._calls.charge(1)
        metrics.JUDGE_REQUESTS.inc()
        charge, cost = self._tokens.charge(reserve), reserve // BYTES_PER_TOKEN
        try:
            envelope = await self._call_through_breaker(body)
            cost = _usage(envelope) or cost
            return Completion(envelope, cost)
        except (_UnsupportedDialectError, _RetryableError) as error:
            cost = 0 if _is_refusal(error) else cost
            raise
        finally:
            self._tokens.correct(charge, cost)
            metrics.JUDGE_TOKENS.inc(cost)

    async def _call_through_breaker(self, body: bytes) -> dict[str, Any]:
        """Call through the circuit breaker. Only failures of the server count, not those the text provoked."""
        started = time.monotonic()
        try:
            envelope = await self._post(body)
        except _RetryableError as error:
            self._breaker.failure(error.reason)
            raise
        except asyncio.CancelledError:
            if time.monotonic() - started > self._settings.timeout / 2:
                self._breaker.failure("deadline")
            raise
        self._breaker.success()
        self._typical_duration += EWMA_WEIGHT * (time.monotonic() - started - self._typical_duration)
        return envelope

    async def _post(self, body: bytes) -> dict[str, Any]:
        try:
            async with self._open_session().post(
                self._url, data=body, headers=self._headers, allow_redirects=False
            ) as reply:
                raw = await _read_bounded(reply)
                _check_status(reply.status, reply.headers)
            envelope = json.loads(raw)
        except (aiohttp.ClientError, OSError) as error:
            raise _RetryableError(type(error).__name__) from None
        except ValueError:
            raise _RetryableError("not_json", cause="garbage") from None
        if not isinstance(envelope, dict):
            raise _RetryableError("not_json", cause="garbage")
        return envelope

    def _open_session(self) -> aiohttp.ClientSession:
        """The session, created on first use because it belongs to the running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._settings.concurrency, ttl_dns_cache=60),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout + TIMEOUT_MARGIN),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _read_bounded(reply: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for chunk in reply.content.iter_any():
        raw += chunk
        if len(raw) > MAX_RESPONSE_BYTES:
            raise _RetryableError("too_large", cause="garbage")
    return bytes(raw)


def _check_status(status: int, headers: Mapping[str, str]) -> None:
    """200 passes; a 400 or 422 asks for another dialect; the rest are failures, some of them worth a retry."""
    if status == 200:
        return
    if status in {400, 404, 422}:
        raise _UnsupportedDialectError(status)
    raise _RetryableError(f"status_{status}", _retry_after(headers), status=status)


def _is_refusal(error: _UnsupportedDialectError | _RetryableError) -> bool:
    """Whether the server answered with an error of the client's: no model has worked."""
    return 400 <= error.status < 500


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds of `Retry-After`, a number or a date (RFC 9110, 10.2.3); 0 without one."""
    value = headers.get("Retry-After", "").strip()
    try:
        return float(value) if value.isdecimal() else max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


_jitter = tenacity.wait_random_exponential(multiplier=0.1, max=1.0)


def _wait(state: tenacity.RetryCallState) -> float:
    """Exponential with full jitter, and not before the server's `Retry-After`."""
    error = state.outcome.exception() if state.outcome is not None else None
    retry_after = error.retry_after if isinstance(error, _RetryableError) else 0.0
    return retry_after + _jitter(state)


def _usage(envelope: Mapping[str, Any]) -> int:
    usage = envelope.get("usage")
    names = (
        ("total_tokens",) if isinstance(usage, dict) and "total_tokens" in usage else ("input_tokens", "output_tokens")
    )
    counts = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    return sum(count for count in counts if isinstance(count, int) and count > 0)


def _endpoint(url: str | None) -> str:
    scheme, _, authority = (url or "").partition("://")
    if scheme not in {"http", "https"} or not authority.strip("/"):
        raise ConfigError("the judge cannot be reached", [f"layers.llm_judge.url: {url!r} is not an http(s) URL"])
    base = f"{scheme}://{authority}".rstrip("/")
    return base if base.endswith((CHAT_SUFFIX, decision.SUFFIX)) else base + CHAT_SUFFIX


def _headers(settings: JudgeLayer) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    if settings.api_key_file is None:
        return headers
    key = read_secret(settings.api_key_file, "layers.llm_judge.api_key_file")
    return headers | {"Authorization": f"Bearer {key}"}
