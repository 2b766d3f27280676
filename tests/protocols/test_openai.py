"""Twin of sidecar/protocols/openai.py. Its refusals and endings are read by the official SDK in other tests."""

from __future__ import annotations

import pytest

from sidecar.errors import RequestError
from sidecar.protocols import StreamState
from sidecar.protocols.openai import OPENAI


@pytest.mark.parametrize(
    ("prefix", "header"),
    [("/v1", "Authorization"), ("/openai/deployments/gpt", "Api-Key"), ("/openai/v1", "Authorization")],
)
def test_azure_expects_the_key_in_a_header_of_its_own(prefix: str, header: str) -> None:
    """Except under `/openai/v1`."""
    assert OPENAI.credential_header(prefix) == header


def test_a_block_is_an_invalid_request_whatever_its_status() -> None:
    """403 otherwise means missing permission, which clients try to mend."""
    error = RequestError("Blocked.")
    error.status, error.code = 403, "content_filter"
    assert OPENAI.error_body(error)["error"]["type"] == "invalid_request_error"
    error.code = "route_not_allowed"
    assert OPENAI.error_body(error)["error"]["type"] == "permission_error"


def test_every_open_choice_ends() -> None:
    """With the head of the stream."""
    events = OPENAI.stream_endings["/chat/completions"](StreamState({"id": "c"}, {0, 2}))
    assert events[0].count(b'"finish_reason":"content_filter"') == 2
    assert b'"id":"c"' in events[0]


def test_shapes_are_those_of_the_operations() -> None:
    """Responses keep turns in `input`; an operation that is not listed keeps them in `messages`."""
    assert "input[]" in OPENAI.shape("/responses").turns
    assert OPENAI.shape("/chat/completions").turns == {"messages[]"}
