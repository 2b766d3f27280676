"""Speaks to the judge's server: one deadline over everything, few retries, and never more than agreed.

Servers differ in what they take. `_DIALECTS` lists the ways to ask, the best first; a 400 or 422 leads to the next, and
the first that works is remembered. Trouble of any kind raises `LayerError` with its cause; nothing of an answer or
of a prompt gets into an error or a log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import aiohttp
import tenacity

from sidecar.config import JudgeLayer
from sidecar.detectors.judge.limits import Breaker, Budget, RetryBudget
from sidecar.detectors.judge.prompt import Message
from sidecar.errors import ConfigError, LayerError
from sidecar.observability import metrics
from sidecar.util import json
from sidecar.util.bulkhead import Bulkhead, BulkheadFull

MAX_ANSWER_BYTES = 1 << 20
OUTPUT_TOKENS = 400
THINKING_TOKENS = 4000
OVERHEAD_TOKENS = 64
LEARNING = 0.2
"""Weight of the latest call in the usual duration."""
BACKSTOP = 1.0
"""Seconds by which the HTTP library's own timeout comes later, so that the deadline of `turn` is what is told."""
CAREFUL = 3
"""A text has at most as many tokens as bytes, and about a third as many: what an unanswered call is charged."""

_DIALECTS: tuple[frozenset[str], ...] = (
    frozenset({"schema", "logprobs", "classic"}),
    frozenset({"schema", "classic"}),
    frozenset({"schema", "thinking"}),
    frozenset({"classic"}),
    frozenset({"thinking"}),
)
_PARTS: Mapping[str, Mapping[str, Any]] = {
    "logprobs": {"logprobs": True, "top_logprobs": 10},
    "classic": {"max_tokens": OUTPUT_TOKENS, "temperature": 0},
    "thinking": {"max_completion_tokens": THINKING_TOKENS},
}


class _AgainError(Exception):
    """Worth another try, not before `after` seconds if the server said so; `reason` for the log."""

    def __init__(self, reason: str, after: float = 0.0, cause: str = "unavailable") -> None:
        self.reason = reason
        self.after = after
        self.cause = cause
        super().__init__(reason)


class _UnfitError(Exception):
    """The server does not take a request of this form."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat completion as it came, and the tokens that it cost."""

    envelope: dict[str, Any]
    tokens: int


class JudgeClient:
    """A client of one OpenAI-compatible server. `turn` gives a place and the deadline; `ask` works within."""

    def __init__(self, settings: JudgeLayer, schema: Mapping[str, Any]) -> None:
        self._settings = settings
        self._url = _endpoint(settings.url)
        self._headers = _headers(settings)
        self._schema = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema},
        }
        self._bulkhead = Bulkhead(settings.concurrency, settings.queue)
        self._breaker = Breaker(settings.breaker_failures, settings.breaker_pause)
        self._retries = RetryBudget()
        self._calls, self._tokens = Budget(settings.calls), Budget(settings.tokens)
        for name, budget in (("calls", self._calls), ("tokens", self._tokens)):
            metrics.JUDGE_BUDGET.labels(name).set_function(partial(getattr, budget, "left"))
        self._dialect, self._settled = 0, False
        self._usual = 0.0
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """A place among the calls, for at most `timeout` seconds, waiting included; yields when that ends."""
        self._breaker.check()
        ends = time.monotonic() + self._settings.timeout
        try:
            async with asyncio.timeout(self._settings.timeout), self._bulkhead:
                self._breaker.admit()
                try:
                    yield ends
                finally:
                    self._breaker.release()
        except BulkheadFull:
            raise LayerError("queue_full") from None
        except TimeoutError:
            raise LayerError("deadline") from None

    async def ask(self, messages: Sequence[Message], ends: float) -> Reply:
        """One completion; `ends` on the monotonic clock is when nothing will be waited for any more.

        A call that would usually take longer than the time that is left is not begun: many servers go on working
        for a client that has left, and its cost is lost.
        """
        if ends - time.monotonic() < self._usual:
            raise LayerError("deadline")
        self._retries.call()
        choices = [self._dialect] if self._settled else range(self._dialect, len(_DIALECTS))
        for dialect in choices:
            try:
                reply = await self._persist(self._body(messages, dialect), ends)
            except _UnfitError:
                continue
            self._dialect, self._settled = dialect, True
            return reply
        raise LayerError("unavailable", "the request was refused in every form")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _body(self, messages: Sequence[Message], dialect: int) -> bytes:
        body: dict[str, Any] = {"model": self._settings.model, "messages": messages}
        for part in sorted(_DIALECTS[dialect]):
            body |= {"response_format": self._schema} if part == "schema" else _PARTS[part]
        return json.dumps(body, json.LARGE)

    async def _persist(self, body: bytes, ends: float) -> Reply:
        """Try, and try again while attempts, time and the retry budget last."""
        spent = tenacity.stop_any(
            tenacity.stop_after_attempt(self._settings.attempts),
            tenacity.stop_before_delay(ends - time.monotonic()),
        )
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_AgainError),
            wait=_wait,
            stop=lambda state: spent(state) or not self._retries.take(),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, body)
        except _AgainError as error:
            self._breaker.hold(error.after)
            raise LayerError(error.cause, error.reason) from None

    async def _attempt(self, body: bytes) -> Reply:
        """One HTTP call, charged before it is made and corrected afterwards."""
        reserve = len(body) + OVERHEAD_TOKENS + (THINKING_TOKENS if b"max_completion" in body else OUTPUT_TOKENS)
        if not (self._calls.fits(1) and self._tokens.fits(reserve)):
            raise LayerError("budget")
        self._calls.charge(1)
        charge, cost = self._tokens.charge(reserve), reserve // CAREFUL
        try:
            envelope = await self._watched(body)
            cost = _usage(envelope) or cost
            return Reply(envelope, cost)
        finally:
            self._tokens.settle(charge, cost)
            metrics.JUDGE_TOKENS.inc(cost)

    async def _watched(self, body: bytes) -> dict[str, Any]:
        """The call under the eyes of the breaker. Only what the server did counts, not what the text provoked."""
        begun = time.monotonic()
        try:
            envelope = await self._post(body)
        except _AgainError as error:
            self._breaker.failure(error.reason)
            raise
        except asyncio.CancelledError:
            if time.monotonic() - begun > self._settings.timeout / 2:
                self._breaker.failure("deadline")
            raise
        self._breaker.success()
        self._usual += LEARNING * (time.monotonic() - begun - self._usual)
        return envelope

    async def _post(self, body: bytes) -> dict[str, Any]:
        try:
            async with self._open().post(self._url, data=body, headers=self._headers, allow_redirects=False) as answer:
                raw = await _bounded(answer)
                _check_status(answer.status, answer.headers)
            envelope = json.loads(raw)
        except (aiohttp.ClientError, OSError) as error:
            raise _AgainError(type(error).__name__) from None
        except ValueError:
            raise _AgainError("not_json", cause="garbage") from None
        if not isinstance(envelope, dict):
            raise _AgainError("not_json", cause="garbage")
        return envelope

    def _open(self) -> aiohttp.ClientSession:
        """The session, made on first use because it belongs to the running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._settings.concurrency, ttl_dns_cache=60),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout + BACKSTOP),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for chunk in answer.content.iter_any():
        raw += chunk
        if len(raw) > MAX_ANSWER_BYTES:
            raise _AgainError("too_large", cause="garbage")
    return bytes(raw)


def _check_status(status: int, headers: Mapping[str, str]) -> None:
    """200 passes; a 400 or 422 asks for another dialect; the rest is trouble, some of it worth another try."""
    if status == 200:
        return
    if status in {400, 422}:
        raise _UnfitError
    raise _AgainError(f"status_{status}", _retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds asked for by `Retry-After`, as a number or a date (RFC 9110, 10.2.3); 0 if there is none."""
    value = headers.get("Retry-After", "").strip()
    try:
        return float(value) if value.isdecimal() else max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


_jitter = tenacity.wait_random_exponential(multiplier=0.1, max=1.0)


def _wait(state: tenacity.RetryCallState) -> float:
    """Exponential with full jitter, and not before the server's `Retry-After`."""
    error = state.outcome.exception() if state.outcome is not None else None
    after = error.after if isinstance(error, _AgainError) else 0.0
    return after + _jitter(state)


def _usage(envelope: Mapping[str, Any]) -> int:
    usage = envelope.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total > 0 else 0


def _endpoint(url: str | None) -> str:
    scheme, _, rest = (url or "").partition("://")
    if scheme not in {"http", "https"} or not rest.strip("/"):
        raise ConfigError("the judge cannot be reached", [f"layers.llm_judge.url: {url!r} is not an http(s) URL"])
    base = f"{scheme}://{rest}".rstrip("/")
    return base if base.endswith("/chat/completions") else base + "/chat/completions"


def _headers(settings: JudgeLayer) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    if settings.api_key_file is None:
        return headers
    try:
        key = settings.api_key_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _key_problem(f"{settings.api_key_file}: {type(error).__name__}") from None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise _key_problem(f"{settings.api_key_file} does not hold one key")
    return headers | {"Authorization": f"Bearer {key}"}


def _key_problem(said: str) -> ConfigError:
    return ConfigError("the judge's key cannot be read", [f"layers.llm_judge.api_key_file: {said}"])
