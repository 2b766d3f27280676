"""The error tree. A class exists only where someone catches it apart.

SidecarError
├── ConfigError            wrong settings: every problem at once, exit 2
├── PolicyError            a policy that does not load or prove itself
├── InjectError            a Kubernetes object that cannot take the sidecar
├── ModelError             semantic model missing or damaged
├── StoreError             the database does not answer
├── ClientError            our client got no verdict; `.status`, `.passing`, `.retry_after` say why
├── LayerError             a layer has no answer; `.cause` is a snake_case word
└── RequestError           the client is answered with `.status`; `detail` says what and where
    ├── Unauthorized       401, one body for every cause
    ├── RateLimited        429, carries `retry_after`
    ├── RouteNotAllowed    403
    │   └── UpgradeRefused 426, no websockets
    ├── NoSuchKey          404, there is no API key with that id
    ├── BodyError          400 / 413 / 415 / 422, `.kind` names the line of `failure.input`
    ├── Unavailable        503, carries `retry_after`
    └── UpstreamError      502 / 504
        └── ResponseBlocked  what the upstream says does not go down
"""

from __future__ import annotations

import re
from collections.abc import Sequence

YAML_ERRORS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises beside its own errors: for a thirteenth month, a number without digits, a date that is none."""

_CREDENTIALS = re.compile(r"""(//).*@|[^\s'"]*@""", re.DOTALL)


def _masked(text: str) -> str:
    return _CREDENTIALS.sub(r"\1***@", text)


class SidecarError(Exception):
    """Whatever this program raises on purpose."""


class ProblemsError(SidecarError):
    """Several problems found in one go; `str()` lists them a line each."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *(f"  - {problem}" for problem in problems)]))


class ConfigError(ProblemsError):
    """The configuration is wrong. What may be the credentials of a URL (all before its `@`) is not told."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        super().__init__(_masked(what), [_masked(problem) for problem in problems])


class PolicyError(ProblemsError):
    """A policy file is wrong, or a rule fails its own examples."""


class InjectError(ProblemsError):
    """The sidecar cannot be put into a Kubernetes object, or may not be put there as asked."""


class ModelError(SidecarError):
    """The semantic model is missing or damaged; the message names the file."""


class StoreError(SidecarError):
    """The database did not answer."""


class ClientError(SidecarError):
    """`sidecar.client` got no verdict. `status`: None without an answer; `passing`: trying again may help."""

    def __init__(
        self, message: str, *, status: int | None = None, passing: bool = False, retry_after: float | None = None
    ) -> None:
        self.status, self.passing, self.retry_after = status, passing, retry_after
        super().__init__(message)


class LayerError(SidecarError):
    """A layer has no answer. `cause` is one snake_case word for headers, logs and metrics."""

    def __init__(self, cause: str, message: str = "") -> None:
        self.cause = cause
        super().__init__(message or cause)


class RequestError(SidecarError):
    """The request is answered with an error: `status`, OpenAI `code`, and a text for people."""

    status = 400
    code = "invalid_request"

    def __init__(self, detail: str, *, param: str | None = None, retry_after: int | None = None) -> None:
        self.detail = detail
        self.param = param
        self.retry_after = retry_after
        super().__init__(detail)


class Unauthorized(RequestError):
    """The key is missing, unknown, revoked or expired."""

    status = 401
    code = "invalid_api_key"


class RateLimited(RequestError):
    """Too many requests; `retry_after` says for how many seconds to wait."""

    status = 429
    code = "rate_limit_exceeded"


class RouteNotAllowed(RequestError):
    """The inline door does not know this route, and unknown routes are refused."""

    status = 403
    code = "route_not_allowed"


class UpgradeRefused(RouteNotAllowed):
    """The client asks for a websocket, which is not served. Clients that can go on over HTTP do so after a 426."""

    status = 426
    code = "upgrade_refused"


class NoSuchKey(RequestError):
    """There is no API key with that id."""

    status = 404
    code = "not_found"


class BodyError(RequestError):
    """The body cannot be read as what it claims to be. `kind` names the line of `failure.input`."""

    code = "invalid_body"

    def __init__(self, kind: str, detail: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(detail, param=param)
        self.kind = kind
        self.status = status


class Unavailable(RequestError):
    """The scan could not be done, or no room is left; closed by policy."""

    status = 503
    code = "scanner_unavailable"


class UpstreamError(RequestError):
    """The upstream refused the connection (502) or did not answer in time (504)."""

    code = "upstream_error"

    def __init__(self, detail: str, *, status: int = 502) -> None:
        super().__init__(detail)
        self.status = status


class ResponseBlocked(UpstreamError):
    """The answer was looked at and goes no further: a stream ends with this as if it had broken off."""

    code = "content_filter"

    def __init__(self, detail: str, *, status: int = 400) -> None:
        super().__init__(detail, status=status)
