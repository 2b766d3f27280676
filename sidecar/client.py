"""Python client of the scan API: `Client` is synchronous, `AsyncClient` asynchronous; both need the extra `[client]`.

    with Client("http://127.0.0.1:8080", api_key=os.environ["SIDECAR_API_KEY"]) as sidecar:
        if sidecar.blocks(prompt, unreachable="block"):
            return "Sorry, I cannot help with that."

One deadline (5 s, as the interface advises) covers a call with its retries: no attempt starts after it, and each read
waits at most for the remaining time. Only transient errors are retried: a lost connection, 429 and 503, not before the
server's `Retry-After`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import httpx2 as httpx
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.stop import stop_base

from sidecar.errors import ClientError
from sidecar.types import Action, Label

SCAN, EXPLAIN, BATCH, CHAT = (
    f"/api/v1/{path}" for path in ("prompt/scan", "prompt/explain", "prompt/batch", "chat/scan")
)
DEADLINE = 5.0
ATTEMPTS = 3
PASSING = frozenset({429, 503})
Unreachable = Literal["block", "allow"]


@dataclass(frozen=True, slots=True)
class Result:
    """The six fields of a scan result; `more` holds the additional fields of `explain`."""

    risk_score: float
    action: Action
    threats: tuple[Label, ...]
    latency_ms: int
    layer_used: str
    reasoning: str | None
    more: Mapping[str, Any]

    @property
    def blocked(self) -> bool:
        """Whether the recommended action is `block`."""
        return self.action is Action.BLOCK

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Result:
        """Parse the JSON of a response. Raises `ClientError` if a field is missing."""
        fields = dict(value)
        try:
            return cls(
                risk_score=float(fields.pop("risk_score")),
                action=Action(fields.pop("action")),
                threats=tuple(Label(label) for label in fields.pop("threats")),
                latency_ms=int(fields.pop("latency_ms")),
                layer_used=str(fields.pop("layer_used")),
                reasoning=fields.pop("reasoning"),
                more=fields,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ClientError(f"the answer is no scan result: {type(error).__name__} at {error}") from None


class _Base:
    """Base of both clients: requests, results and retries."""

    def __init__(self, base_url: str, api_key: str, *, deadline: float = DEADLINE, attempts: int = ATTEMPTS) -> None:
        self._base_url, self._headers = base_url, {"X-API-Key": api_key}
        self._deadline, self._attempts = deadline, attempts

    def _policy(self) -> dict[str, Any]:
        """The retry policy, for tenacity."""
        return {
            "stop": _Deadline(self._deadline) | stop_after_attempt(self._attempts),
            "wait": _pause,
            "retry": retry_if_exception(lambda error: isinstance(error, ClientError) and error.passing),
            "reraise": True,
        }

    def _timeout(self, began: float) -> float:
        return max(0.05, self._deadline - (time.monotonic() - began))


class Client(_Base):
    """Synchronous client. Raises `ClientError`; use it as a context manager or call `close`."""

    def __init__(self, base_url: str, api_key: str, *, deadline: float = DEADLINE, attempts: int = ATTEMPTS) -> None:
        super().__init__(base_url, api_key, deadline=deadline, attempts=attempts)
        self._http = httpx.Client(base_url=self._base_url, headers=self._headers)

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def scan(self, prompt: str, *, system_prompt: str | None = None, model: str | None = None) -> Result:
        """One verdict."""
        return Result.of(self._post(SCAN, _body(prompt, system_prompt, model)))

    def explain(self, prompt: str, *, system_prompt: str | None = None, model: str | None = None) -> Result:
        """One verdict with findings, spans and layers in `more`."""
        return Result.of(self._post(EXPLAIN, _body(prompt, system_prompt, model)))

    def batch(self, prompts: Sequence[str | Mapping[str, Any]]) -> list[Result]:
        """A verdict for each prompt (or scan request), in order."""
        return [Result.of(value) for value in self._post(BATCH, _bodies(prompts))]

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> Result:
        """One verdict for all messages together."""
        return Result.of(self._post(CHAT, {"messages": list(messages)}))

    def blocks(
        self, prompt: str, *, unreachable: Unreachable, system_prompt: str | None = None, model: str | None = None
    ) -> bool:
        """Whether to block this prompt. `unreachable` decides while the sidecar cannot be reached: `block` or `allow`.

        A refused key or a malformed request is the caller's error and is raised in either case.
        """
        try:
            return self.scan(prompt, system_prompt=system_prompt, model=model).blocked
        except ClientError as error:
            return _decided(error, unreachable)

    def _post(self, path: str, body: object) -> Any:
        began = time.monotonic()
        return Retrying(**self._policy())(self._once, path, body, began)

    def _once(self, path: str, body: object, began: float) -> Any:
        try:
            return _value(self._http.post(path, json=body, timeout=self._timeout(began)))
        except httpx.TransportError as error:
            raise _unreached(error) from error


class AsyncClient(_Base):
    """Asynchronous client. Raises `ClientError`; use it as an async context manager or await `aclose`."""

    def __init__(self, base_url: str, api_key: str, *, deadline: float = DEADLINE, attempts: int = ATTEMPTS) -> None:
        super().__init__(base_url, api_key, deadline=deadline, attempts=attempts)
        self._http = httpx.AsyncClient(base_url=self._base_url, headers=self._headers)

    async def __aenter__(self) -> Self:
        """The client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def scan(self, prompt: str, *, system_prompt: str | None = None, model: str | None = None) -> Result:
        """One verdict."""
        return Result.of(await self._post(SCAN, _body(prompt, system_prompt, model)))

    async def explain(self, prompt: str, *, system_prompt: str | None = None, model: str | None = None) -> Result:
        """One verdict with findings, spans and layers in `more`."""
        return Result.of(await self._post(EXPLAIN, _body(prompt, system_prompt, model)))

    async def batch(self, prompts: Sequence[str | Mapping[str, Any]]) -> list[Result]:
        """A verdict for each prompt (or scan request), in order."""
        return [Result.of(value) for value in await self._post(BATCH, _bodies(prompts))]

    async def chat(self, messages: Sequence[Mapping[str, Any]]) -> Result:
        """One verdict for all messages together."""
        return Result.of(await self._post(CHAT, {"messages": list(messages)}))

    async def blocks(
        self, prompt: str, *, unreachable: Unreachable, system_prompt: str | None = None, model: str | None = None
    ) -> bool:
        """Whether to block this prompt; as `Client.blocks`."""
        try:
            return (await self.scan(prompt, system_prompt=system_prompt, model=model)).blocked
        except ClientError as error:
            return _decided(error, unreachable)

    async def _post(self, path: str, body: object) -> Any:
        began = time.monotonic()
        return await AsyncRetrying(**self._policy())(self._once, path, body, began)

    async def _once(self, path: str, body: object, began: float) -> Any:
        try:
            return _value(await self._http.post(path, json=body, timeout=self._timeout(began)))
        except httpx.TransportError as error:
            raise _unreached(error) from error


class _Deadline(stop_base):
    """Stops when the next attempt would start after the deadline."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether the deadline is exceeded."""
        return (retry_state.seconds_since_start or 0.0) + retry_state.upcoming_sleep >= self._seconds


def _pause(state: RetryCallState) -> float:
    """The server's `Retry-After`, else 0.1 s, doubled each time."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, ClientError) else None
    return retry_after if retry_after is not None else 0.1 * 2 ** (state.attempt_number - 1)


def _body(prompt: str, system_prompt: str | None, model: str | None) -> dict[str, str]:
    fields = {"prompt": prompt, "system_prompt": system_prompt, "model": model}
    return {name: value for name, value in fields.items() if value is not None}


def _bodies(prompts: Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"prompt": prompt} if isinstance(prompt, str) else dict(prompt) for prompt in prompts]


def _value(response: httpx.Response) -> Any:
    if response.status_code == 200:
        return _json(response.json)
    detail = (_json(response.json) or {}).get("detail", "no reason given")
    after = response.headers.get("Retry-After", "")
    raise ClientError(
        f"{response.status_code}: {detail}",
        status=response.status_code,
        passing=response.status_code in PASSING,
        retry_after=float(after) if after.isdigit() else None,
    )


def _json(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ValueError:
        raise ClientError("the answer is not JSON: is this the address of a sidecar?") from None


def _unreached(error: httpx.TransportError) -> ClientError:
    return ClientError(f"no answer: {type(error).__name__}", passing=not isinstance(error, httpx.TimeoutException))


def _decided(error: ClientError, unreachable: Unreachable) -> bool:
    if error.status is not None and error.status < 500 and error.status != 429:
        raise error
    return unreachable == "block"
