"""The sidecar's own responses: verdict headers, errors in the dialect of each endpoint, and the block response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from sidecar.config import Block
from sidecar.errors import RequestError, UpgradeRefused
from sidecar.protocols import PROTOCOLS
from sidecar.types import Verdict
from sidecar.util import codings, json

# Request state shared by handlers and middleware.
DECISION_ID = web.RequestKey("decision_id", str)
KEY_ID = web.RequestKey("key_id", str)
DIALECT = web.RequestKey("dialect", str)
ERROR_FORM: web.RequestKey[Any] = web.RequestKey("error_form", object)
"""A function that makes the response to a `RequestError` in the form of a contract, whatever raised it."""

DECISION = "x-sidecar-decision"
ACTION = "x-sidecar-action"
RISK = "x-sidecar-risk-score"
THREATS = "x-sidecar-threats"
UNSCANNED = "x-sidecar-unscanned"
ENFORCE = "x-sidecar-enforce"
STRIPPED = "x-sidecar-stripped"
REPLACED = "x-sidecar-redacted"
MARKED = "x-sidecar-marked"
UNMARKED = "x-sidecar-unmarked"
# Clients retry errors that they consider transient; a block is permanent.
NO_RETRY = {"x-should-retry": "false"}
TOO_SUSPICIOUS = (
    "More of the text looks suspicious than the scanner reads closely (layers.semantic.budget, failure.input.budget)."
)
JSON = "application/json"


def verdict_headers(decision_id: str, action: str, verdict: Verdict, unscanned: str | None = None) -> dict[str, str]:
    """The headers of every response of the inline proxy; `unscanned` names the parts forwarded unscanned."""
    headers = {
        DECISION: decision_id,
        ACTION: action,
        RISK: str(verdict.risk_score),
        THREATS: ",".join(verdict.threats),
    }
    return headers | {UNSCANNED: unscanned} if unscanned else headers


def joined_names(*names: str | None) -> str | None:
    """The value of `x-sidecar-unscanned` for what is named; None if nothing is."""
    return ",".join(filter(None, names)) or None


def scan_headers(decision_id: str, unscanned: str | None) -> dict[str, str]:
    """What an answer of the scan API and its adapters carries: the decision, and what was not scanned."""
    return {DECISION: decision_id} | ({UNSCANNED: unscanned} if unscanned else {})


def retry_headers(error: RequestError) -> dict[str, str]:
    """Retry advice for clients. No retry after a 504: the upstream may still be working, and would charge twice."""
    if isinstance(error, UpgradeRefused):
        return {"Upgrade": "HTTP/1.1", "Connection": "upgrade"}
    if error.status == 415:
        return {"Accept-Encoding": ", ".join(codings.SUPPORTED)}
    if error.status == 504:
        return dict(NO_RETRY)
    return {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}


def detail_response(error: RequestError) -> web.Response:
    """An error of the scan API: `{"detail": ...}`."""
    return _json(error.status, {"detail": error.detail}, retry_headers(error))


def error_response(error: RequestError, dialect: str) -> web.Response:
    """An error of the inline proxy, in the envelope of `dialect`."""
    return _json(error.status, error_body(error, dialect), _headers(error, dialect))


def _headers(error: RequestError, dialect: str) -> dict[str, str]:
    return {**retry_headers(error), **PROTOCOLS[dialect].error_headers(error)}


def error_body(error: RequestError, dialect: str) -> dict[str, Any]:
    """The error envelope, which is also the last event of an aborted stream."""
    return PROTOCOLS[dialect].error_body(error)


def blocked_response(
    verdict: Verdict, decision_id: str, block: Block, dialect: str, message: str | None = None
) -> web.Response:
    """The block response as an error; `message` replaces `block.message`. Without the verdict headers."""
    error = RequestError(message or block.message, param=verdict.path)
    error.status, error.code = block.status, "content_filter"
    body = error_body(error, dialect)
    envelope = body["error"] if isinstance(body.get("error"), dict) else body
    envelope["sidecar"] = {
        "decision": decision_id,
        "path": verdict.path,
        "risk_score": verdict.risk_score,
        "threats": list(verdict.threats),
        "layer_used": verdict.layer_used,
    }
    return _json(block.status, body, NO_RETRY | dict(PROTOCOLS[dialect].error_headers(error)))


def _json(status: int, value: object, headers: Mapping[str, str]) -> web.Response:
    return web.Response(status=status, body=json.dumps(value), content_type=JSON, headers=headers)
