"""Tests `sidecar.server.responses`: errors in the envelope of each endpoint."""

from __future__ import annotations

import json

import pytest

from sidecar.config import Block
from sidecar.errors import (
    BodyError,
    RateLimited,
    RequestError,
    RouteNotAllowed,
    Unauthorized,
    Unavailable,
    UpgradeRefused,
)
from sidecar.errors import UpstreamError as Upstream
from sidecar.server.responses import blocked_response, detail_response, error_response, verdict_headers
from sidecar.types import Action, Label, LayerName, Verdict

VERDICT = Verdict(0.8765, Action.BLOCK, (Label.JAILBREAK, Label.PII_DETECTED), 3, LayerName.SEMANTIC)
ERRORS = [
    (Unauthorized("d"), 401, "authentication_error", "authentication_error"),
    (RouteNotAllowed("d"), 403, "permission_error", "permission_error"),
    (UpgradeRefused("d"), 426, "invalid_request_error", "invalid_request_error"),
    (RateLimited("d", retry_after=3), 429, "rate_limit_error", "rate_limit_error"),
    (BodyError("malformed", "d"), 400, "invalid_request_error", "invalid_request_error"),
    (BodyError("oversize", "d", status=413), 413, "invalid_request_error", "request_too_large"),
    (Unavailable("d", retry_after=1), 503, "server_error", "overloaded_error"),
    (Upstream("d"), 502, "server_error", "api_error"),
    (Upstream("d", status=504), 504, "server_error", "timeout_error"),
]


@pytest.mark.parametrize(("error", "status", "openai", "anthropic"), ERRORS)
def test_every_error_has_a_type_in_both_dialects(error: RequestError, status: int, openai: str, anthropic: str) -> None:
    """Status and message are the same; the envelope is that of each API."""
    openai_response, anthropic_response = error_response(error, "openai"), error_response(error, "anthropic")
    assert openai_response.status == anthropic_response.status == status
    assert json.loads(openai_response.body)["error"] == {
        "message": "d",
        "type": openai,
        "param": None,
        "code": error.code,
    }
    assert json.loads(anthropic_response.body) == {"type": "error", "error": {"type": anthropic, "message": "d"}}


def test_the_scan_door_says_detail() -> None:
    """An error of the scan API has `detail` and Retry-After."""
    answer = detail_response(RateLimited("slow down", retry_after=3))
    assert (answer.status, json.loads(answer.body), answer.headers["Retry-After"]) == (
        429,
        {"detail": "slow down"},
        "3",
    )


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_who_waited_in_vain_is_not_to_ask_again(dialect: str) -> None:
    """A 504 asks SDKs not to retry, because the upstream may still be working; a 502 does not."""
    late, lost = (error_response(Upstream("d", status=status), dialect) for status in (504, 502))
    assert (late.headers.get("x-should-retry"), lost.headers.get("x-should-retry")) == ("false", None)


def test_verdict_headers_are_complete_and_unscanned_is_named_only_where_it_is_so() -> None:
    """Threats are joined in one field, and the unscanned parts are named only if there are any."""
    assert verdict_headers("dec_1", "block", VERDICT) == {
        "x-sidecar-decision": "dec_1",
        "x-sidecar-action": "block",
        "x-sidecar-risk-score": "0.8765",
        "x-sidecar-threats": "jailbreak,pii_detected",
    }
    assert verdict_headers("dec_1", "allow", VERDICT, "media")["x-sidecar-unscanned"] == "media"


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_block_carries_its_verdict_and_asks_not_to_be_tried_again(dialect: str) -> None:
    """A block has its verdict and asks not to retry, with any configured status."""
    answer = blocked_response(VERDICT, "dec_1", Block(status=403), dialect)
    error = json.loads(answer.body)["error"]
    assert (answer.status, answer.headers["x-should-retry"]) == (403, "false")
    assert error["sidecar"] == {
        "decision": "dec_1",
        "path": None,
        "risk_score": 0.8765,
        "threats": ["jailbreak", "pii_detected"],
        "layer_used": "semantic",
    }
    if dialect == "openai":
        assert (error["type"], error["code"]) == ("invalid_request_error", "content_filter")
