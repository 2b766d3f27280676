"""The exception hierarchy. A class exists only if it is caught separately.

SidecarError
├── ConfigError            wrong settings: every problem at once, exit 2
├── PolicyError            a policy that does not load or fails its self-test
├── InjectError            a Kubernetes object that the sidecar cannot be injected into
├── ModelError             semantic model missing or damaged
├── StoreError             the database does not respond
│   └── StoreUnavailable   it cannot be reached now; later it may
├── ClientError            our client got no verdict; see `.status`, `.passing`, `.retry_after`
├── LayerError             a layer has no result; `.cause` is a snake_case word
└── RequestError           answered to the client with `.status`; `detail` describes the problem
    ├── Unauthorized       401, one body for every cause
    ├── RateLimited        429, carries `retry_after`
    ├── RouteNotAllowed    403
    │   └── UpgradeRefused 426, no websockets
    ├── NoSuchKey          404, no API key with that id
    ├── BodyError          400 / 413 / 415 / 422, `.kind` names the line of `failure.input`
    ├── Unavailable        503, carries `retry_after`
    └── UpstreamError      502 / 504
        └── ResponseBlocked  the response is withheld from the client
"""

from __future__ import annotations

import re
from collections.abc import Sequence

YAML_ERRORS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises besides its own errors, e.g. for a thirteenth month or a number without digits."""

_CREDENTIALS = re.compile(r"""(//).*@|[^\s'"]*@""", re.DOTALL)


def needs_extra(name: str) -> str:
    """The problem that an optional dependency is missing. No package index has the project: a clone has its extras."""
    return f"needs the extra [{name}]: pip install '.[{name}]' in a clone"


def _masked(text: str) -> str:
    return _CREDENTIALS.sub(r"\1***@", text)


class SidecarError(Exception):
    """Base class of all errors of this program."""


class ProblemsError(SidecarError):
    """Several problems reported together; `str()` lists them one per line."""

    def __init__(self, summary: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([summary, *(f"  - {problem}" for problem in problems)]))


class ConfigError(ProblemsError):
    """The configuration is invalid. Possible credentials in a URL (all before its `@`) are masked."""

    def __init__(self, summary: str, problems: Sequence[str]) -> None:
        super().__init__(_masked(summary), [_masked(problem) for problem in problems])


class PolicyError(ProblemsError):
    """A policy file is invalid, or a rule fails its own examples."""


class InjectError(ProblemsError):
    """The sidecar cannot be injected into a Kubernetes object, or not with the requested options."""


class ModelError(SidecarError):
    """The semantic model is missing or damaged; the message names the file."""


class StoreError(SidecarError):
    """The database did not respond. The message is the driver's reason, without the parameters of the statement."""

    holds_no_values = True
    """Whether the message may be logged wherever the error ends up."""


class StoreConflict(StoreError):
    """A row that exists already, or refers to one that does not."""


class StoreUnavailable(StoreError):
    """The database cannot be reached now, which may pass: it is away, restarting, or has no connection left."""


class ClientError(SidecarError):
    """`sidecar.client` got no verdict. `status`: None without a response; `passing`: transient, a retry may help."""

    def __init__(
        self, message: str, *, status: int | None = None, passing: bool = False, retry_after: float | None = None
    ) -> None:
        self.status, self.passing, self.retry_after = status, passing, retry_after
        super().__init__(message)


class LayerError(SidecarError):
    """A layer has no result. `cause` is one snake_case word for headers, logs and metrics."""

    def __init__(self, cause: str, message: str = "") -> None:
        self.cause = cause
        super().__init__(message or cause)


class RequestError(SidecarError):
    """The request is answered with an error: `status`, OpenAI `code`, and a readable `detail`."""

    status = 400
    code = "invalid_request"

    def __init__(self, detail: str, *, param: str | None = None, retry_after: int | None = None) -> None:
        self.detail = detail
        self.param = param
        self.retry_after = retry_after
        super().__init__(detail)


class Unauthorized(RequestError):
    """The key is missing, unknown, revoked or expired: `reason`, for the log and never for the client.

    `key_id`: that of a revoked or expired key.
    """

    status = 401
    code = "invalid_api_key"

    def __init__(self, detail: str, *, reason: str = "unknown", key_id: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.key_id = reason, key_id


class RateLimited(RequestError):
    """Too many requests; `retry_after` is the time to wait in seconds."""

    status = 429
    code = "rate_limit_exceeded"


class RouteNotAllowed(RequestError):
    """The inline proxy does not know this route, and unknown routes are refused."""

    status = 403
    code = "route_not_allowed"


class UpgradeRefused(RouteNotAllowed):
    """The client requests a websocket, which is not served. Clients that support HTTP fall back to it after a 426."""

    status = 426
    code = "upgrade_refused"


class NoSuchKey(RequestError):
    """No API key has that id."""

    status = 404
    code = "not_found"


class BodyError(RequestError):
    """The body does not have its declared format. `kind` names the setting below `failure.input`."""

    code = "invalid_body"

    def __init__(self, kind: str, detail: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(detail, param=param)
        self.kind = kind
        self.status = status


class Unavailable(RequestError):
    """The scan failed or capacity is exhausted, and the policy is to refuse."""

    status = 503
    code = "scanner_unavailable"


class UpstreamError(RequestError):
    """The upstream refused the connection (502) or did not respond in time (504)."""

    code = "upstream_error"

    def __init__(self, detail: str, *, status: int = 502) -> None:
        super().__init__(detail)
        self.status = status


class ResponseBlocked(UpstreamError):
    """The response was scanned and is withheld; a stream ends with this error as if it had been truncated."""

    code = "content_filter"

    def __init__(self, detail: str, *, status: int = 400) -> None:
        super().__init__(detail, status=status)
