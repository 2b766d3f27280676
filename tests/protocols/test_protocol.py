"""Twin of sidecar/protocols/protocol.py, and what every protocol must have."""

from __future__ import annotations

import pytest

from sidecar.errors import RequestError
from sidecar.protocols import PROTOCOLS, Protocol, RouteKind, StreamState, data, protocol_of
from sidecar.protocols.protocol import event, shape
from sidecar.util.aws_event_stream import message_length

EACH = pytest.mark.parametrize("each", PROTOCOLS.values(), ids=lambda each: each.name)


@EACH
def test_a_protocol_is_found_by_name_and_by_operation(each: Protocol) -> None:
    """Every operation of its table is its own; an unknown one counts as OpenAI's."""
    assert PROTOCOLS[each.name] is each
    assert all(protocol_of(name) is each for names in each.routes.values() for name in names.split())
    assert protocol_of("/my/own/route") is PROTOCOLS["openai"]


def test_no_operation_is_in_two_protocols_or_kinds() -> None:
    """Each has one entry."""
    operations = [name for each in PROTOCOLS.values() for names in each.routes.values() for name in names.split()]
    assert len(operations) == len(set(operations))
    assert set(PROTOCOLS["openai"].routes) <= set(RouteKind)


def is_whole(part: bytes) -> bool:
    """Whether a part of a stream is one event, or one message."""
    return part.endswith(b"\n\n") or len(part) == message_length(part)


@EACH
def test_what_can_be_refused_can_end_early(each: Protocol) -> None:
    """For the same operations; all of them are inferences."""
    assert set(each.refusals) == set(each.stream_endings)
    assert set(each.refusals) <= set(each.routes[RouteKind.INFERENCE].split())


@EACH
def test_a_refusal_is_a_body_and_events_with_the_same_text(each: Protocol) -> None:
    """Every maker names the decision and the model, where the API has fields for them."""
    for make in each.refusals.values():
        refusal = make("No.", "17", "m")
        if each.name != "bedrock":  # its responses have neither
            assert str(refusal.body.get("id", refusal.body.get("responseId"))).endswith("17")
            assert each.name == "cohere" or "m" in {refusal.body.get("model"), refusal.body.get("modelVersion")}
        assert b"No." in b"".join(refusal.events)
        assert all(is_whole(received) for received in refusal.events)


@EACH
def test_a_stream_that_has_not_begun_can_end(each: Protocol) -> None:
    """Without any event of the upstream's."""
    for end in each.stream_endings.values():
        assert all(map(is_whole, end(StreamState())))


@EACH
def test_an_error_has_its_detail_in_the_envelope(each: Protocol) -> None:
    """And no status changes that."""
    for status in (400, 401, 403, 404, 413, 429, 500, 503, 504):
        error = RequestError("What is wrong.")
        error.status = status
        body = each.error_body(error)
        assert body.get("error", body)["message"] == "What is wrong."
        assert b"What is wrong." in each.stream_error(error)


def test_events_and_shapes() -> None:
    """The small makers."""
    assert data({"a": 1}) == b'data: {"a":1}\n\n'
    assert event("ping", {"n": 1}) == b'event: ping\ndata: {"type":"ping","n":1}\n\n'
    assert (shape("a[] b[]").turns, shape().system) == (frozenset({"a[]", "b[]"}), frozenset())
