"""Twin of sidecar/api/endpoint.py: errors of failed scans. The order of the checks is in tests/test_spec.py."""

from __future__ import annotations

import pytest

from sidecar.api import endpoint
from sidecar.types import Action, LayerName, Verdict


@pytest.mark.parametrize(
    ("cause", "status"), [("overload", 429), ("too_long", 422), ("budget", 422), ("deadline", 503)]
)
def test_a_failed_scan_is_an_error_by_its_cause(cause: str, status: int) -> None:
    """Temporary errors have Retry-After."""
    error = endpoint.scan_failure_error(Verdict(0.0, Action.BLOCK, (), 1, LayerName.RULES, failure=cause))
    assert (error.status, error.retry_after is None) == (status, status == 422)
