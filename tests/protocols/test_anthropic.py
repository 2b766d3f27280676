"""Twin of sidecar/protocols/anthropic.py. Its refusals and endings are read by the official SDK in other tests."""

from __future__ import annotations

from sidecar.errors import RequestError
from sidecar.protocols import StreamState
from sidecar.protocols.anthropic import ANTHROPIC


def test_errors_have_anthropics_types() -> None:
    """503 is overload there."""
    error = RequestError("Busy.")
    error.status = 503
    assert ANTHROPIC.error_body(error) == {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}


def test_every_open_block_is_closed_before_the_end() -> None:
    """In order, then the stop reason."""
    events = b"".join(ANTHROPIC.stream_endings["/messages"](StreamState(blocks={1, 0})))
    assert events.index(b'"index":0') < events.index(b'"index":1') < events.index(b'"stop_reason":"refusal"')


def test_batches_hold_turns_and_system_prompts_of_many_requests() -> None:
    """The shape is the same for all operations."""
    assert "requests[].params.messages[]" in ANTHROPIC.shape("/messages/batches").turns
    assert ANTHROPIC.credential_header("/v1") == "X-API-Key"
