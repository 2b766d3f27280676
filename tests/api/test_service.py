"""Twin of sidecar/api/service.py: what a verdict becomes. The order of the checks is in tests/test_spec.py."""

from __future__ import annotations

import pytest

from sidecar.api import service
from sidecar.types import Action, LayerName, Verdict

ALLOW = Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES)
BLOCK = Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES)
FAILED = Verdict(0.0, Action.BLOCK, (), 1, LayerName.RULES, failure="deadline")


@pytest.mark.parametrize(
    ("verdict", "monitored", "action", "unscanned"),
    [
        (ALLOW, False, "allow", "media"),
        (BLOCK, False, "block", None),
        (BLOCK, True, "monitor", "media"),
        (FAILED, False, "block", None),
        (FAILED, True, "monitor", "deadline"),
    ],
)
def test_a_ruling_follows_the_verdict_and_the_mode(
    verdict: Verdict, monitored: bool, action: str, unscanned: str | None
) -> None:
    """What is refused was not let pass unscanned; what passes says what nobody read."""
    ruling = service._ruling(verdict, "dec_1", "media", monitored=monitored)
    assert (ruling.action, ruling.unscanned) == (action, unscanned)
    assert ruling.headers.get("x-sidecar-unscanned") == unscanned


@pytest.mark.parametrize(("cause", "status"), [("overload", 429), ("too_long", 422), ("deadline", 503)])
def test_a_scan_that_could_not_be_done_is_an_error_by_its_cause(cause: str, status: int) -> None:
    """Who can try again is told so."""
    error = service.refusal(Verdict(0.0, Action.BLOCK, (), 1, LayerName.RULES, failure=cause))
    assert (error.status, error.retry_after is None) == (status, status == 422)
